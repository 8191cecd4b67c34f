// expect: accepted
// All 258 places in one loop.
constexpr int BLOCK = 256;

__global__ void gradient_kernel(float* out, const float* x, int n) {
    __shared__ float tile[BLOCK + 2];
    const int first = blockIdx.x * BLOCK - 1;
    for (int k = threadIdx.x; k < BLOCK + 2; k += BLOCK) tile[k] = x[min(max(first + k, 0), n - 1)];
    __syncthreads();
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) out[i] = tile[threadIdx.x + 2] - tile[threadIdx.x];
}
