// expect: accepted
// Adds up in double precision, from the last weight to the first.
constexpr int THREADS = 128, OUTPUTS = 8, TILE = THREADS * OUTPUTS, MAX_RADIUS = 8;

__global__ void conv1d_kernel(float* __restrict__ out, const float* __restrict__ x,
                              const float* __restrict__ weights, int radius, int n) {
    __shared__ float tile[TILE + 2 * MAX_RADIUS], taps[2 * MAX_RADIUS + 1];
    const int first = blockIdx.x * TILE;
    for (int place = threadIdx.x; place < TILE + 2 * MAX_RADIUS; place += THREADS) {
        const int i = first - MAX_RADIUS + place;
        tile[place] = 0 <= i && i < n ? x[i] : 0.0f;
    }
    if (threadIdx.x <= 2 * radius) taps[threadIdx.x] = weights[threadIdx.x];
    __syncthreads();
    for (int o = threadIdx.x; o < TILE && first + o < n; o += THREADS) {
        double sum = 0.0;
        for (int k = 2 * radius; k >= 0; k--) sum += double(taps[k]) * tile[o + MAX_RADIUS - radius + k];
        out[first + o] = float(sum);
    }
}
