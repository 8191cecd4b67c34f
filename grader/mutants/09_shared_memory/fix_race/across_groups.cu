// expect: wrong-formula
// Takes the neighbours from x, across the ends of the groups; right for one pass at most.
constexpr int BLOCK = 256;

__global__ void smooth_kernel(float* out, const float* x, int steps, int n) {
    __shared__ float tile[2][BLOCK + 32];
    const int first = blockIdx.x * BLOCK, t = threadIdx.x;
    for (int k = t; k < BLOCK + 32; k += BLOCK) tile[0][k] = x[min(max(first - 16 + k, 0), n - 1)];
    __syncthreads();
    for (int step = 0; step < steps; step++) {
        for (int k = t; k < BLOCK + 32; k += BLOCK) {
            const int left = first - 16 + k > 0 ? max(k - 1, 0) : k;
            const int right = first - 16 + k < n - 1 ? min(k + 1, BLOCK + 31) : k;
            tile[(step + 1) % 2][k] = (tile[step % 2][left] + tile[step % 2][k] + tile[step % 2][right]) / 3.0f;
        }
        __syncthreads();
    }
    if (first + t < n) out[first + t] = tile[steps % 2][16 + t];
}
