// expect: missing-wait
// Arrives, but does not say how many bytes will come.
#include <lab/hopper.cuh>

// y = factor * x, matrices of fp16. A block of 128 threads scales a box of 64 x 64, at (row, column).
__global__ void __launch_bounds__(128)
tma_scale(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap y, float factor) {
    __shared__ __align__(128) half tile[64 * 64];
    __shared__ uint64_t full;
    int t = threadIdx.x, row = blockIdx.y * 64, column = blockIdx.x * 64;
    if (t == 0) {
        mbarrier_init(&full, 1);
        mbarrier_fence();
    }
    __syncthreads();
    if (t == 0) {
        mbarrier_arrive(&full);
        tma_load(tile, &x, &full, row, column);
    }
    mbarrier_wait(&full, 0);
    for (int i = t; i < 64 * 64; i += 128) tile[i] = __float2half(factor * __half2float(tile[i]));
    fence_async();
    __syncthreads();
    if (t == 0) {
        tma_store(&y, tile, row, column);
        tma_commit();
        tma_wait<0>();
    }
}
