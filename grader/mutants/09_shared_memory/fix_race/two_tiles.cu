// expect: accepted
// Two tiles in turn, one barrier for each pass.
constexpr int BLOCK = 256;

__global__ void smooth_kernel(float* out, const float* x, int steps, int n) {
    __shared__ float tile[2][BLOCK];
    const int first = blockIdx.x * BLOCK, t = threadIdx.x;
    const int left = max(t - 1, 0), right = min(t + 1, min(BLOCK, n - first) - 1);
    tile[0][t] = x[min(first + t, n - 1)];
    __syncthreads();
    for (int step = 0; step < steps; step++) {
        const float* old = tile[step % 2];
        tile[(step + 1) % 2][t] = (old[left] + old[t] + old[right]) / 3.0f;
        __syncthreads();
    }
    if (first + t < n) out[first + t] = tile[steps % 2][t];
}
