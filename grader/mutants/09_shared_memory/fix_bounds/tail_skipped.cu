// expect: uninitialised-shared
// Threads past the end load nothing, and the last element has no right neighbour.
constexpr int BLOCK = 256;

__global__ void gradient_kernel(float* out, const float* x, int n) {
    __shared__ float tile[BLOCK + 2];
    const int i = blockIdx.x * BLOCK + threadIdx.x, t = threadIdx.x + 1;
    if (i < n) tile[t] = x[i];
    if (threadIdx.x == 0) tile[0] = x[max(i - 1, 0)];
    if (threadIdx.x == BLOCK - 1) tile[t + 1] = x[min(i + 1, n - 1)];
    __syncthreads();
    if (i < n) out[i] = tile[t + 1] - tile[t - 1];
}
