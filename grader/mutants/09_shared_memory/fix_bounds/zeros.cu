// expect: wrong-values
// Zeros for the missing neighbours.
constexpr int BLOCK = 256;

__global__ void gradient_kernel(float* out, const float* x, int n) {
    __shared__ float tile[BLOCK + 2];
    const int i = blockIdx.x * BLOCK + threadIdx.x, t = threadIdx.x + 1;
    tile[t] = i < n ? x[i] : 0.0f;
    if (threadIdx.x == 0) tile[0] = i > 0 ? x[i - 1] : 0.0f;
    if (threadIdx.x == BLOCK - 1) tile[t + 1] = i + 1 < n ? x[i + 1] : 0.0f;
    __syncthreads();
    if (i < n) out[i] = tile[t + 1] - tile[t - 1];
}
