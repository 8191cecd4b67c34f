// expect: accepted
// marks: 3
// Four neighbouring outputs for each thread: lanes lie four words apart, a 4-way conflict.
constexpr int THREADS = 128, OUTPUTS = 8, TILE = THREADS * OUTPUTS, MAX_RADIUS = 8;

__global__ void conv1d_kernel(float* __restrict__ out, const float* __restrict__ x,
                              const float* __restrict__ weights, int radius, int n) {
    __shared__ float tile[TILE + 2 * MAX_RADIUS];
    __shared__ float taps[2 * MAX_RADIUS + 1];
    const int first = blockIdx.x * TILE;
    for (int place = threadIdx.x; place < TILE + 2 * MAX_RADIUS; place += THREADS) {
        const int i = first - MAX_RADIUS + place;
        tile[place] = 0 <= i && i < n ? x[i] : 0.0f;
    }
    if (threadIdx.x <= 2 * radius) taps[threadIdx.x] = weights[threadIdx.x];
    __syncthreads();
    for (int o = OUTPUTS * threadIdx.x; o < OUTPUTS * threadIdx.x + OUTPUTS; o++) {
        float sum = 0.0f;
        for (int k = 0; k <= 2 * radius; k++) sum += taps[k] * tile[o + MAX_RADIUS - radius + k];
        if (first + o < n) out[first + o] = sum;
    }
}
