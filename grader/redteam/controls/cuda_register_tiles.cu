// tries: register tiles in a class, a template over sizes, loops by index of one dimension
// exercise: 15_matmul_cuda/register
// expect: accepted
template <int TM, int TN>
class Accumulator {
   public:
    __device__ Accumulator() {
#pragma unroll
        for (auto &v : sums) v = 0.0f;
    }
    __device__ void outer(const float (&a)[TM], const float (&b)[TN]) {
#pragma unroll
        for (int i = 0; i < TM; ++i)
#pragma unroll
            for (int j = 0; j < TN; ++j) sums[i * TN + j] = __fmaf_rn(a[i], b[j], sums[i * TN + j]);
    }
    __device__ float get(int i, int j) const { return sums[i * TN + j]; }

   private:
    float sums[TM * TN];
};

template <int BM, int BN, int TM, int TN>
__global__ void __launch_bounds__(BM / TM * BN / TN)
matmul_register(const float *a, const float *b, float *c, int M, int N, int K) {
    constexpr int BK = 8, WIDE = BN / TN, TALL = BM / TM, THREADS = WIDE * TALL;
    __shared__ float As[BK * BM], Bs[BK * BN];
    const int tid = threadIdx.x, tx = tid % WIDE, ty = tid / WIDE;
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    Accumulator<TM, TN> acc;
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int i = tid; i < BM * BK; i += THREADS) {
            const int m = i / BK, k = i % BK;
            As[k * BM + m] = (m0 + m < M && k0 + k < K) ? a[(m0 + m) * K + k0 + k] : 0.f;
        }
        for (int i = tid; i < BK * BN; i += THREADS) {
            const int k = i / BN, n = i % BN;
            Bs[i] = (k0 + k < K && n0 + n < N) ? b[(k0 + k) * N + n0 + n] : 0.f;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float ra[TM], rb[TN];
#pragma unroll
            for (int i = 0; i < TM; ++i) ra[i] = As[k * BM + ty * TM + i];
#pragma unroll
            for (int j = 0; j < TN; ++j) rb[j] = Bs[k * BN + j * WIDE + tx];
            acc.outer(ra, rb);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int m = m0 + ty * TM + i, n = n0 + j * WIDE + tx;
            if (m < M && n < N) c[m * N + n] = acc.get(i, j);
        }
}
