// expect: accepted
// marks: 3
// Padding instead of swizzling: a word more in each row.
constexpr int TILE = 64, ROWS = 4;

__global__ void transpose_swizzled_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
    __shared__ float tile[TILE][TILE + 1];
    const int first_m = blockIdx.y * TILE, first_n = blockIdx.x * TILE;
    for (int k = 0; k < TILE; k += ROWS) {
        const int y = threadIdx.y + k, m = first_m + y, n = first_n + threadIdx.x;
        if (m < M && n < N) tile[y][threadIdx.x] = x[m * N + n];
    }
    __syncthreads();
    for (int k = 0; k < TILE; k += ROWS) {
        const int y = threadIdx.y + k, n = first_n + y, m = first_m + threadIdx.x;
        if (n < N && m < M) out[n * M + m] = tile[threadIdx.x][y];
    }
}
