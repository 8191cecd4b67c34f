// expect: accepted
// Waits for all copies: right, though it waits for later tiles, too.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <lab/mma.cuh>
#include <mma.h>
using namespace nvcuda;

// As in level 6, but the copies are only started. What lies outside becomes 0, and its address is not read.
template <int ROWS, int COLUMNS, int PITCH, int THREADS>
__device__ void copy_tile(half *tile, const half *x, int row, int column, int rows, int columns) {
    constexpr int ACROSS = COLUMNS / 8, DOWN = THREADS / ACROSS;  // threads side by side, and below each other
    int r = threadIdx.x / ACROSS, q = threadIdx.x % ACROSS * 8;
    const half *from = x + size_t(row + r) * columns + column + q;
    half *to = tile + r * PITCH + q;
    int left = column + q < columns ? rows - row - r : 0;
    #pragma unroll
    for (int p = 0; p < ROWS; p += DOWN) copy_async(to + p * PITCH, from + size_t(p) * columns, p < left);
}

__device__ void store_piece(float *patch, wmma::fragment<wmma::accumulator, 16, 16, 16, float> &sum, half *c, int m,
                            int n, int M, int N) {
    wmma::store_matrix_sync(patch, sum, 20, wmma::mem_row_major);
    __syncwarp();
    int r = threadIdx.x % 32 / 2, q = threadIdx.x % 2 * 8;
    __align__(16) half eight[8];
    for (int j = 0; j < 8; j++) eight[j] = __float2half(patch[r * 20 + q + j]);
    if (m + r < M && n + q < N)
        reinterpret_cast<uint4 *>(c)[((m + r) * N + n + q) / 8] = *reinterpret_cast<uint4 *>(eight);
    __syncwarp();
}

// As matmul_wmma. WARPS_M x WARPS_N warps compute 64 x 64 elements each, with STAGES buffers of tiles BK deep.
template <int WARPS_M, int WARPS_N, int BK, int STAGES>
__global__ void __launch_bounds__(32 * WARPS_M * WARPS_N)
matmul_pipelined(const half *a, const half *b, half *c, int M, int N, int K) {
    constexpr int BM = 64 * WARPS_M, BN = 64 * WARPS_N, PA = BK + 8, PB = BN + 8;
    constexpr int A_TILE = BM * PA, B_TILE = BK * PB, THREADS = 32 * WARPS_M * WARPS_N;
    extern __shared__ __align__(128) half memory[];
    int warp = threadIdx.x / 32, wm = warp / WARPS_N * 64, wn = warp % WARPS_N * 64;
    int tiles_m = (M + BM - 1) / BM, tiles_n = (N + BN - 1) / BN, tiles_k = (K + BK - 1) / BK;
    int first = blockIdx.x / (8 * tiles_n) * 8, rows = min(tiles_m - first, 8), within = blockIdx.x % (8 * tiles_n);
    int m0 = (first + within % rows) * BM, n0 = within / rows * BN;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[4][4];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a_piece[2][4];  // one set is read while the
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b_piece[2][4];  // other one is multiplied
    #pragma unroll
    for (int i = 0; i < 4; i++) {
        #pragma unroll
        for (int j = 0; j < 4; j++) wmma::fill_fragment(sum[i][j], 0.0f);
        wmma::fill_fragment(a_piece[1][i], half(0.0f));
        wmma::fill_fragment(b_piece[1][i], half(0.0f));
    }

    auto fetch = [&](int tile, int buffer) {  // zeros past the end
        half *to = memory + buffer * (A_TILE + B_TILE);
        copy_tile<BM, BK, PA, THREADS>(to, a, m0, tile * BK, M, K);
        copy_tile<BK, BN, PB, THREADS>(to + A_TILE, b, tile * BK, n0, K, N);
    };
    auto read = [&](int buffer, int k) {
        const half *a_tile = memory + buffer * (A_TILE + B_TILE), *b_tile = a_tile + A_TILE;
        #pragma unroll
        for (int i = 0; i < 4; i++)
            wmma::load_matrix_sync(a_piece[k / 16 % 2][i], a_tile + (wm + 16 * i) * PA + k, PA);
        #pragma unroll
        for (int j = 0; j < 4; j++) wmma::load_matrix_sync(b_piece[k / 16 % 2][j], b_tile + k * PB + wn + 16 * j, PB);
    };
    auto multiply = [&](int k) {
        #pragma unroll
        for (int i = 0; i < 4; i++)
            #pragma unroll
            for (int j = 0; j < 4; j++)
                wmma::mma_sync(sum[i][j], a_piece[k / 16 % 2][i], b_piece[k / 16 % 2][j], sum[i][j]);
    };
    auto begin = [&](int buffer) {  // read the first 32 of a tile's depth; multiply the last 16 of the tile before
        read(buffer, 0);
        multiply(BK - 16);
        read(buffer, 16);
    };
    auto go_on = [&](int buffer) {  // multiply a tile but for its last 16, which are in registers then
        multiply(0);
        #pragma unroll
        for (int k = 16; k < BK - 16; k += 16) {
            read(buffer, k + 16);
            multiply(k);
        }
    };

    int now = 0, free = STAGES - 1;  // the buffer to multiply from, and the one to fetch to
    #pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        fetch(s, s);
        __pipeline_commit();
    }
    for (int s = 0; s < tiles_k; s++) {
        __pipeline_wait_prior(0);
        __syncthreads();
        begin(now);
        fetch(s + STAGES - 1, free);
        __pipeline_commit();
        go_on(now);
        free = now;
        now = now + 1 == STAGES ? 0 : now + 1;
    }
    multiply(BK - 16);
    __pipeline_wait_prior(0);  // zeros past the end may still be arriving where `patch` lies
    __syncthreads();
    float *patch = reinterpret_cast<float *>(memory) + warp * 16 * 20;
    #pragma unroll
    for (int i = 0; i < 4; i++)
        #pragma unroll
        for (int j = 0; j < 4; j++) store_piece(patch, sum[i][j], c, m0 + wm + 16 * i, n0 + wn + 16 * j, M, N);
}
