#include <mma.h>
using namespace nvcuda;

// one warp, 16 queries, 16 features
__global__ void flash_wmma(const half* Q, const half* K, const half* V, float* O, int n, float scale) {
    __shared__ half P[16][16];
    __shared__ float S[16][16], sum[16][16], most[16], total[16], correction[16];
    int lane = threadIdx.x, q0 = blockIdx.x * 16;
    for (int i = lane; i < 256; i += 32) sum[i / 16][i % 16] = 0;
    if (lane < 16) {
        most[lane] = -INFINITY;
        total[lane] = 0;
    }
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> q, p;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> k;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> v;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> s, o;
    wmma::load_matrix_sync(q, Q + q0 * 16, 16);
    for (int k0 = 0; k0 < n; k0 += 16) {
        wmma::fill_fragment(s, 0.0f);
        wmma::load_matrix_sync(k, K + k0 * 16, 16);
        wmma::mma_sync(s, q, k, s);
        wmma::store_matrix_sync(&S[0][0], s, 16, wmma::mem_row_major);
        __syncwarp();
        if (lane < 16) {
            float larger = most[lane], sum_p = 0;
            for (int j = 0; j < 16; j++) larger = fmaxf(larger, S[lane][j] * scale);
            for (int j = 0; j < 16; j++) {
                float e = __expf(S[lane][j] * scale - larger);
                P[lane][j] = __float2half(e);
                sum_p += e;
            }
            correction[lane] = __expf(most[lane] - larger);
            total[lane] = total[lane] * correction[lane] + sum_p;
            most[lane] = larger;
        }
        __syncwarp();
        for (int i = lane; i < 256; i += 32) sum[i / 16][i % 16] *= correction[i / 16];
        __syncwarp();
        wmma::load_matrix_sync(p, &P[0][0], 16);
        wmma::load_matrix_sync(v, V + k0 * 16, 16);
        wmma::load_matrix_sync(o, &sum[0][0], 16, wmma::mem_row_major);
        wmma::mma_sync(o, p, v, o);
        __syncwarp();
        wmma::store_matrix_sync(&sum[0][0], o, 16, wmma::mem_row_major);
        __syncwarp();
    }
    for (int i = lane; i < 256; i += 32) O[(q0 + i / 16) * 16 + i % 16] = sum[i / 16][i % 16] / total[i / 16];
}
