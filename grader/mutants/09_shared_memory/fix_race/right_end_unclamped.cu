// expect: out-of-bounds
// The last thread reads one place too far.
constexpr int BLOCK = 256;

__global__ void smooth_kernel(float* out, const float* x, int steps, int n) {
    __shared__ float tile[BLOCK];
    const int first = blockIdx.x * BLOCK, t = threadIdx.x;
    const int left = max(t - 1, 0), right = t + 1;
    tile[t] = x[min(first + t, n - 1)];
    __syncthreads();
    for (int step = 0; step < steps; step++) {
        const float mean = (tile[left] + tile[t] + tile[right]) / 3.0f;
        __syncthreads();
        tile[t] = mean;
        __syncthreads();
    }
    if (first + t < n) out[first + t] = tile[t];
}
