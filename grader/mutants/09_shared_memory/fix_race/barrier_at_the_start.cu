// expect: missing-syncthreads
// The second barrier stands before the reading.
constexpr int BLOCK = 256;

__global__ void smooth_kernel(float* out, const float* x, int steps, int n) {
    __shared__ float tile[BLOCK];
    const int first = blockIdx.x * BLOCK, t = threadIdx.x;
    const int left = max(t - 1, 0), right = min(t + 1, min(BLOCK, n - first) - 1);
    tile[t] = x[min(first + t, n - 1)];
    __syncthreads();
    for (int step = 0; step < steps; step++) {
        __syncthreads();
        tile[t] = (tile[left] + tile[t] + tile[right]) / 3.0f;
        __syncthreads();
    }
    if (first + t < n) out[first + t] = tile[t];
}
