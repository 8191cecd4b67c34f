// expect: accepted
// marks: 3
// No shared memory: right, but every element is loaded 17 times.
constexpr int THREADS = 128, OUTPUTS = 8, TILE = THREADS * OUTPUTS, MAX_RADIUS = 8;

__global__ void conv1d_kernel(float* __restrict__ out, const float* __restrict__ x,
                              const float* __restrict__ weights, int radius, int n) {
    for (int j = 0; j < OUTPUTS; j++) {
        const int i = blockIdx.x * TILE + threadIdx.x + j * THREADS;
        float sum = 0.0f;
        for (int k = -radius; k <= radius; k++) {
            if (i < n && 0 <= i + k && i + k < n) sum += weights[radius + k] * x[i + k];
        }
        if (i < n) out[i] = sum;
    }
}
