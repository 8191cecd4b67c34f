// expect: missing-wait
// The next copies start while products still read the tiles.
#include <lab/hopper.cuh>

// The sums of a warp group, as wgmma leaves them, to rows from m on and columns from n on of c (M, N).
template <int COUNT>
__device__ void store_sums(const float (&sum)[COUNT], half *c, int m, int n, int M, int N) {
    int t = threadIdx.x % 128, row = m + t / 32 * 16 + t % 32 / 4, column = n + t % 4 * 2;
    #pragma unroll
    for (int i = 0; i < COUNT; i += 2) {
        int r = row + i % 4 / 2 * 8, q = column + i / 4 * 8;
        if (r < M && q < N) *reinterpret_cast<half2 *>(c + r * N + q) = __floats2half2_rn(sum[i], sum[i + 1]);
    }
}

// c = a @ b^T: a (M, K), b (N, K), in boxes of 128 x 64, c (M, N). One warp group computes 128 x 128 elements.
__global__ void __launch_bounds__(128)
matmul_tile(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, half *c, int M, int N,
            int K) {
    extern __shared__ __align__(1024) half memory[];
    half *a_tile = memory, *b_tile = memory + 128 * 64;
    __shared__ uint64_t full;
    int m0 = blockIdx.y * 128, n0 = blockIdx.x * 128, steps = (K + 63) / 64;
    float top[64], bottom[64];
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_fence();
    }
    __syncthreads();
    for (int s = 0; s < steps; s++) {
        if (threadIdx.x == 0) {
            mbarrier_expect(&full, 2 * 128 * 64 * sizeof(half));
            tma_load(a_tile, &a, &full, m0, s * 64);
            tma_load(b_tile, &b, &full, n0, s * 64);
        }
        mbarrier_wait(&full, s % 2);
        wgmma_fence();
        #pragma unroll
        for (int k = 0; k < 64; k += 16) {
            wgmma(top, wgmma_tile(a_tile + k), wgmma_tile(b_tile + k), s + k > 0);
            wgmma(bottom, wgmma_tile(a_tile + 64 * 64 + k), wgmma_tile(b_tile + k), s + k > 0);
        }
        wgmma_commit();
        __syncthreads();
    }
    wgmma_wait<0>(top);
    wgmma_wait<0>(bottom);
    store_sums(top, c, m0, n0, M, N);
    store_sums(bottom, c, m0 + 64, n0, M, N);
}
