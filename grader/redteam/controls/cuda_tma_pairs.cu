// tries: a tile by TMA, scaled as pairs of halves
// exercise: 16_matmul_hopper/scale
// expect: accepted
#include <lab/hopper.cuh>

struct Tile {
    half2 pairs[64 * 32];
};

__global__ void __launch_bounds__(128)
tma_scale(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap y, float factor) {
    __shared__ __align__(128) Tile tile;
    __shared__ uint64_t arrived;
    const int2 corner = make_int2(blockIdx.x * 64, blockIdx.y * 64);
    const bool leader = threadIdx.x == 0;
    if (leader) {
        mbarrier_init(&arrived, 1);
        mbarrier_fence();
        mbarrier_expect(&arrived, sizeof(Tile));
        tma_load(&tile, &x, &arrived, corner.y, corner.x);
    }
    __syncthreads();
    mbarrier_wait(&arrived, 0);
#pragma unroll 8
    for (int i = threadIdx.x; i < 64 * 32; i += blockDim.x) {
        const float2 v = __half22float2(tile.pairs[i]);
        tile.pairs[i] = __floats2half2_rn(factor * v.x, factor * v.y);
    }
    fence_async();
    __syncthreads();
    if (leader) {
        tma_store(&y, &tile, corner.y, corner.x);
        tma_commit();
        tma_wait<0>();
    }
}
