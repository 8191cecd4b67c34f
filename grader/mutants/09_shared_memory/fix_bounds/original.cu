// expect: out-of-bounds
// The kernel as it was given.
constexpr int BLOCK = 256;

__global__ void gradient_kernel(float* out, const float* x, int n) {
    __shared__ float tile[BLOCK + 1];
    const int i = blockIdx.x * BLOCK + threadIdx.x, t = threadIdx.x + 1;
    tile[t] = x[i];
    if (threadIdx.x == 0) tile[0] = x[i - 1];
    if (threadIdx.x == BLOCK - 1) tile[t + 1] = x[i + 1];
    __syncthreads();
    if (i < n) out[i] = tile[t + 1] - tile[t - 1];
}
