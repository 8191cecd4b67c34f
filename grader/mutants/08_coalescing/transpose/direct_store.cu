// expect: accepted
// marks: 3
// No shared memory: right, but stores walk down the columns of out.
constexpr int TILE = 32, ROWS = 8;

__global__ void transpose_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
    const int n = blockIdx.x * TILE + threadIdx.x;
    for (int k = 0; k < TILE; k += ROWS) {
        const int m = blockIdx.y * TILE + threadIdx.y + k;
        if (m < M && n < N) out[n * M + m] = x[m * N + n];
    }
}
