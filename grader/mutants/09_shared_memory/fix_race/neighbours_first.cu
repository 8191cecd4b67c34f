// expect: accepted
// Copies the neighbours into registers, waits, then writes.
constexpr int BLOCK = 256;

__global__ void smooth_kernel(float* out, const float* x, int steps, int n) {
    __shared__ float tile[BLOCK];
    const int first = blockIdx.x * BLOCK, t = threadIdx.x;
    const int left = max(t - 1, 0), right = min(t + 1, min(BLOCK, n - first) - 1);
    tile[t] = x[min(first + t, n - 1)];
    __syncthreads();
    for (int step = 0; step < steps; step++) {
        const float before = tile[left], after = tile[right];
        __syncthreads();
        tile[t] = (before + tile[t] + after) / 3.0f;
        __syncthreads();
    }
    if (first + t < n) out[first + t] = tile[t];
}
