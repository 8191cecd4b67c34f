// expect: accepted
// From the tile's end to its beginning.
// As matmul_naive. A block computes BM x BN elements, each of its (BM / TM) * (BN / TN) threads TM x TN of them.
template <int BM, int BN, int TM, int TN>
__global__ void __launch_bounds__(BM / TM * BN / TN)
matmul_register(const float *a, const float *b, float *c, int M, int N, int K) {
    constexpr int BK = 8, THREADS = (BM / TM) * (BN / TN), WIDE = BN / TN;
    __shared__ float a_tile[BM][BK], b_tile[BK][BN];
    int t = threadIdx.x, tx = t % WIDE, ty = t / WIDE;
    int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    float sum[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int p = 0; p < BM * BK / THREADS; p++) {
            int i = t + p * THREADS, m = m0 + i / BK, k = k0 + i % BK;
            a_tile[i / BK][i % BK] = m < M && k < K ? a[m * K + k] : 0.0f;
        }
        for (int p = 0; p < BK * BN / THREADS; p++) {
            int i = t + p * THREADS, k = k0 + i / BN, n = n0 + i % BN;
            b_tile[i / BN][i % BN] = k < K && n < N ? b[k * N + n] : 0.0f;
        }
        __syncthreads();
        #pragma unroll
        for (int k = BK - 1; k >= 0; k--) {
            float a_reg[TM], b_reg[TN];
            #pragma unroll
            for (int i = 0; i < TM; i++) a_reg[i] = a_tile[ty * TM + i][k];
            #pragma unroll
            for (int j = 0; j < TN; j++) b_reg[j] = b_tile[k][tx + j * WIDE];
            #pragma unroll
            for (int i = 0; i < TM; i++)
                #pragma unroll
                for (int j = 0; j < TN; j++) sum[i][j] += a_reg[i] * b_reg[j];
        }
        __syncthreads();
    }
    #pragma unroll
    for (int i = 0; i < TM; i++)
        #pragma unroll
        for (int j = 0; j < TN; j++) {
            int m = m0 + ty * TM + i, n = n0 + tx + j * WIDE;
            if (m < M && n < N) c[m * N + n] = sum[i][j];
        }
}
