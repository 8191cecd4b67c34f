// expect: first-block-only
// Each thread computes one of its eight outputs.
constexpr int THREADS = 128, OUTPUTS = 8, TILE = THREADS * OUTPUTS, MAX_RADIUS = 8;

__global__ void conv1d_kernel(float* __restrict__ out, const float* __restrict__ x,
                              const float* __restrict__ weights, int radius, int n) {
    __shared__ float tile[TILE + 2 * MAX_RADIUS];
    __shared__ float taps[2 * MAX_RADIUS + 1];
    const int first = blockIdx.x * TILE;
    for (int j = 0; j <= OUTPUTS; j++) {
        const int place = threadIdx.x + j * THREADS, i = first - MAX_RADIUS + place;
        if (place < TILE + 2 * MAX_RADIUS) tile[place] = 0 <= i && i < n ? x[i] : 0.0f;
    }
    if (threadIdx.x <= 2 * radius) taps[threadIdx.x] = weights[threadIdx.x];
    __syncthreads();
    float sum[OUTPUTS] = {};
    const float* mine = tile + threadIdx.x + MAX_RADIUS - radius;
    for (int k = 0; k <= 2 * radius; k++) {
        for (int j = 0; j < 1; j++) sum[j] += taps[k] * mine[j * THREADS + k];
    }
    for (int j = 0; j < 1; j++) {
        const int i = first + threadIdx.x + j * THREADS;
        if (i < n) out[i] = sum[j];
    }
}
