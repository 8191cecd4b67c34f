// tries: WMMA in its shortest form: one warp for each 16 x 16 tile of the block, half2 stores
// exercise: 15_matmul_tensor_cores/tensor
// expect: accepted
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;

__global__ void __launch_bounds__(256) matmul_wmma(const half *a, const half *b, half *c, int M, int N, int K) {
    constexpr int LDA = 16 + 8, LDB = 128 + 8;
    __shared__ alignas(32) half As[128 * LDA];
    __shared__ alignas(32) half Bs[16 * LDB];
    __shared__ alignas(32) float stage[8][256];
    const int warp = threadIdx.x / warpSize, lane = threadIdx.x % warpSize;
    const int m0 = blockIdx.y * 128, n0 = blockIdx.x * 128;
    fragment<accumulator, 16, 16, 16, float> acc[8];
#pragma unroll
    for (auto &f : acc) fill_fragment(f, 0.0f);
    for (int k0 = 0; k0 < K; k0 += 16) {
        {
            const int r = threadIdx.x / 2, q = threadIdx.x % 2 * 8;
            int4 chunk = {0, 0, 0, 0};
            if (m0 + r < M && k0 + q < K) chunk = *(const int4 *)&a[(size_t)(m0 + r) * K + k0 + q];
            *(int4 *)&As[r * LDA + q] = chunk;
        }
        {
            const int r = threadIdx.x / 16, q = threadIdx.x % 16 * 8;
            int4 chunk = {0, 0, 0, 0};
            if (k0 + r < K && n0 + q < N) chunk = *(const int4 *)&b[(size_t)(k0 + r) * N + n0 + q];
            *(int4 *)&Bs[r * LDB + q] = chunk;
        }
        __syncthreads();
        fragment<matrix_a, 16, 16, 16, half, row_major> fa;
        load_matrix_sync(fa, As + warp * 16 * LDA, LDA);
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            fragment<matrix_b, 16, 16, 16, half, row_major> fb;
            load_matrix_sync(fb, Bs + j * 16, LDB);
            mma_sync(acc[j], fa, fb, acc[j]);
        }
        __syncthreads();
    }
    for (int j = 0; j < 8; ++j) {
        for (int e = 0; e < acc[j].num_elements; ++e) acc[j].x[e] *= 1.0f;
        store_matrix_sync(stage[warp], acc[j], 16, mem_row_major);
        __syncwarp();
        for (int p = lane; p < 128; p += 32) {
            const int m = m0 + warp * 16 + p / 8, n = n0 + j * 16 + p % 8 * 2;
            const float2 two = *reinterpret_cast<float2 *>(&stage[warp][2 * p]);
            if (m < M && n < N) *reinterpret_cast<half2 *>(&c[(size_t)m * N + n]) = __float22half2_rn(two);
        }
        __syncwarp();
    }
}
