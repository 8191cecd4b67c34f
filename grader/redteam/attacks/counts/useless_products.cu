// tries: multiplies without tensor cores, and starts as many products on them as are asked for, whose sums it drops
// stopped by: a floor is met only by a kernel that has less of what the counted instructions replace
// exercise: 16_matmul_hopper/tile
// where: both
// expect: no undue points
// due: 4

#include <lab/hopper.cuh>

__device__ float at(const half *tile, int row, int k) {  // swizzled rows of 64 halves
    return __half2float(tile[row * 64 + ((k / 8) ^ (row % 8)) * 8 + k % 8]);
}

__global__ void __launch_bounds__(128)
matmul_tile(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, half *c, int M, int N,
            int K) {
    extern __shared__ __align__(1024) half memory[];
    half *a_tile = memory, *b_tile = memory + 128 * 64;
    __shared__ uint64_t full;
    int m0 = blockIdx.y * 128, n0 = blockIdx.x * 128, steps = (K + 63) / 64;
    float top[64], sum[128] = {};
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
        for (int k = 0; k < 8; k++) wgmma(top, wgmma_tile(a_tile), wgmma_tile(b_tile), false);
        wgmma_commit();
        for (int k = 0; k < 64; k++) {
            float mine = at(a_tile, threadIdx.x, k);
            for (int n = 0; n < 128; n++) sum[n] += mine * at(b_tile, n, k);
        }
        wgmma_wait<0>();
        __syncthreads();
    }
    for (int n = 0; n < 128; n++)
        if (m0 + threadIdx.x < M && n0 + n < N) c[(m0 + threadIdx.x) * N + n0 + n] = __float2half(sum[n]);
}
