// expect: accepted
// Another lane arrives.
#include <lab/hopper.cuh>

template <int COUNT>
__device__ void store_sums(const float (&sum)[COUNT], half *c, int m, int n, int M, int N) {
    int t = threadIdx.x % 128, row = m + t / 32 * 16 + t % 32 / 4, column = n + t % 4 * 2;
    #pragma unroll
    for (int i = 0; i < COUNT; i += 2) {
        int r = row + i % 4 / 2 * 8, q = column + i / 4 * 8;
        if (r < M && q < N) *reinterpret_cast<half2 *>(c + r * N + q) = __floats2half2_rn(sum[i], sum[i + 1]);
    }
}

// As matmul_tile, a in boxes of 128 x 64, b of 256 x 64. Nine warps compute 128 x 256 elements.
template <int STAGES>
__global__ void __launch_bounds__(288, 1)
matmul_ring(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, half *c, int M, int N,
            int K) {
    constexpr int A_TILE = 128 * 64, B_TILE = 256 * 64;
    extern __shared__ __align__(1024) half memory[];
    __shared__ uint64_t full[STAGES], empty[STAGES];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, steps = (K + 63) / 64;
    int tiles_m = (M + 127) / 128, tiles_n = (N + 255) / 256;  // groups of 16 rows of tiles, as in unit 14
    int first = blockIdx.x / (16 * tiles_n) * 16, within = blockIdx.x % (16 * tiles_n);
    int rows = min(tiles_m - first, 16);
    int m0 = (first + within % rows) * 128, n0 = within / rows * 256;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            mbarrier_init(&full[stage], 1);
            mbarrier_init(&empty[stage], 8);
        }
        mbarrier_fence();
    }
    __syncthreads();
    if (warp == 8) {
        for (int s = 0; s < steps && lane == 0; s++) {
            int stage = s % STAGES, turn = s / STAGES;
            half *tile = memory + stage * (A_TILE + B_TILE);
            mbarrier_wait(&empty[stage], (turn + 1) % 2);
            mbarrier_expect(&full[stage], (A_TILE + B_TILE) * sizeof(half));
            tma_load(tile, &a, &full[stage], m0, s * 64);
            tma_load(tile + A_TILE, &b, &full[stage], n0, s * 64);
        }
    } else {
        int group = warp / 4;
        float sum[128];
        for (int s = 0; s < steps; s++) {
            int stage = s % STAGES, turn = s / STAGES;
            half *tile = memory + stage * (A_TILE + B_TILE);
            mbarrier_wait(&full[stage], turn % 2);
            wgmma_fence();
            #pragma unroll
            for (int k = 0; k < 64; k += 16)
                wgmma(sum, wgmma_tile(tile + group * 64 * 64 + k), wgmma_tile(tile + A_TILE + k), s + k > 0);
            wgmma_commit();
            wgmma_wait<0>();
            if (lane == 19) mbarrier_arrive(&empty[stage]);
        }
        wgmma_wait<0>(sum);
        store_sums(sum, c, m0 + group * 64, n0, M, N);
    }
}
