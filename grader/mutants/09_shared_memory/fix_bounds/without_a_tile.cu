// expect: accepted
// No shared memory at all: the cache does it.
constexpr int BLOCK = 256;

__global__ void gradient_kernel(float* out, const float* x, int n) {
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= n) return;
    out[i] = x[min(i + 1, n - 1)] - x[max(i - 1, 0)];
}
