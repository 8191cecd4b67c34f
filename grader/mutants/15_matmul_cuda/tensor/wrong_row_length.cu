// expect: uninitialised-shared
// Rows of the tile taken to be 32 long.
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

// tile[i][j] = x[row + i][column + j], 0 outside x (rows, columns); all threads of the block, 8 halves at a time.
template <int ROWS, int COLUMNS, int PITCH>
__device__ void copy_tile(half *tile, const half *x, int row, int column, int rows, int columns) {
    for (int i = threadIdx.x; i < ROWS * COLUMNS / 8; i += blockDim.x) {
        int r = i / (COLUMNS / 8), q = i % (COLUMNS / 8) * 8;
        bool inside = row + r < rows && column + q < columns;
        uint4 eight = make_uint4(0, 0, 0, 0);
        if (inside) eight = *reinterpret_cast<const uint4 *>(x + (row + r) * columns + column + q);
        *reinterpret_cast<uint4 *>(tile + r * PITCH + q) = eight;
    }
}

// A piece of 16 x 16 sums to c, through `patch`, 16 x 20 floats of the warp's own.
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

// c = a @ b in fp16, sums in fp32, for rows of whole uint4. 256 threads compute 128 x 128 elements.
__global__ void __launch_bounds__(256) matmul_wmma(const half *a, const half *b, half *c, int M, int N, int K) {
    constexpr int BK = 32, PA = BK + 8, PB = 128 + 8;
    __shared__ __align__(128) half a_tile[128][PA], b_tile[BK][PB];
    __shared__ __align__(128) float patches[8][16 * 20];
    int warp = threadIdx.x / 32, wm = warp / 4 * 64, wn = warp % 4 * 32;
    int m0 = blockIdx.y * 128, n0 = blockIdx.x * 128;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[4][2];
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 2; j++) wmma::fill_fragment(sum[i][j], 0.0f);
    for (int k0 = 0; k0 < K; k0 += BK) {
        copy_tile<128, BK, PA>(&a_tile[0][0], a, m0, k0, M, K);
        copy_tile<BK, 128, PB>(&b_tile[0][0], b, k0, n0, K, N);
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < BK; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a_piece[4];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b_piece[2];
            #pragma unroll
            for (int i = 0; i < 4; i++) wmma::load_matrix_sync(a_piece[i], &a_tile[wm + 16 * i][k], 32);
            #pragma unroll
            for (int j = 0; j < 2; j++) wmma::load_matrix_sync(b_piece[j], &b_tile[k][wn + 16 * j], PB);
            #pragma unroll
            for (int i = 0; i < 4; i++)
                #pragma unroll
                for (int j = 0; j < 2; j++) wmma::mma_sync(sum[i][j], a_piece[i], b_piece[j], sum[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 2; j++)
            store_piece(patches[warp], sum[i][j], c, m0 + wm + 16 * i, n0 + wn + 16 * j, M, N);
}
