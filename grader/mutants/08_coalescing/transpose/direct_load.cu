// expect: accepted
// marks: 3
// No shared memory: right, but loads walk down the columns of x.
constexpr int TILE = 32, ROWS = 8;

__global__ void transpose_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
    const int m = blockIdx.y * TILE + threadIdx.x;
    for (int k = 0; k < TILE; k += ROWS) {
        const int n = blockIdx.x * TILE + threadIdx.y + k;
        if (m < M && n < N) out[n * M + m] = x[m * N + n];
    }
}
