// tries: reads columns of an unpadded tile as structs that a function takes, and a row beside each where it is counted
// stopped by: every access counts
// exercise: 09_shared_memory/transpose_swizzled
// where: both
// expect: no undue points
// due: 3.5

constexpr int TILE = 64, ROWS = 4;
struct One {
    float v;
};
__device__ __noinline__ float peek(One one) { return one.v; }
__global__ void transpose_swizzled_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
    __shared__ float tile[TILE][TILE];
    const int first_m = blockIdx.y * TILE, first_n = blockIdx.x * TILE;
    int seen = 0;
    for (int k = 0; k < TILE; k += ROWS) {
        const int y = threadIdx.y + k, m = first_m + y, n = first_n + threadIdx.x;
        if (m < M && n < N) tile[y][threadIdx.x] = x[m * N + n];
    }
    __syncthreads();
    for (int k = 0; k < TILE; k += ROWS) {
        const int y = threadIdx.y + k, n = first_n + y, m = first_m + threadIdx.x;
        if (first_m + y < M && first_n + threadIdx.x < N) seen |= __float_as_int(tile[y][threadIdx.x]);
        if (n < N && m < M) {
            float v = peek(*reinterpret_cast<const One*>(&tile[threadIdx.x][y]));
            out[n * M + m] = seen == 0x7fc12345 ? 0.0f : v;
        }
    }
}
