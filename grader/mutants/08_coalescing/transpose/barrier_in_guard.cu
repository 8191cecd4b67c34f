// expect: barrier-divergence
// Threads beyond the matrix never reach the barrier.
constexpr int TILE = 32, ROWS = 8;

__global__ void transpose_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
    __shared__ float tile[TILE][TILE];
    const int first_m = blockIdx.y * TILE, first_n = blockIdx.x * TILE;
    if (first_n + threadIdx.x < N) {
        for (int k = 0; k < TILE; k += ROWS) {
            const int y = threadIdx.y + k;
            if (first_m + y < M) tile[y][threadIdx.x] = x[(first_m + y) * N + first_n + threadIdx.x];
        }
        __syncthreads();
    }
    for (int k = 0; k < TILE; k += ROWS) {
        const int y = threadIdx.y + k;
        if (first_n + y < N && first_m + threadIdx.x < M) {
            out[(first_n + y) * M + first_m + threadIdx.x] = tile[threadIdx.x][y];
        }
    }
}
