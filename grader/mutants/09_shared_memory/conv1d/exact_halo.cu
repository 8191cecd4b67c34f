// expect: accepted
// A halo of just the radius, loaded by its own lines; one output after the other.
constexpr int THREADS = 128, OUTPUTS = 8, TILE = THREADS * OUTPUTS, MAX_RADIUS = 8;

__global__ void conv1d_kernel(float* __restrict__ out, const float* __restrict__ x,
                              const float* __restrict__ weights, int radius, int n) {
    __shared__ float tile[TILE + 2 * MAX_RADIUS], taps[2 * MAX_RADIUS + 1];
    const int first = blockIdx.x * TILE, t = threadIdx.x;
    for (int o = t; o < TILE; o += THREADS) tile[radius + o] = first + o < n ? x[first + o] : 0.0f;
    if (t < radius) {
        const int left = first - radius + t, right = first + TILE + t;
        tile[t] = left >= 0 ? x[left] : 0.0f;
        tile[radius + TILE + t] = right < n ? x[right] : 0.0f;
    }
    if (t < 2 * radius + 1) taps[t] = weights[t];
    __syncthreads();
    for (int o = t; o < TILE; o += THREADS) {
        float sum = 0.0f;
        for (int k = 0; k < 2 * radius + 1; k++) sum += taps[k] * tile[o + k];
        if (first + o < n) out[first + o] = sum;
    }
}
