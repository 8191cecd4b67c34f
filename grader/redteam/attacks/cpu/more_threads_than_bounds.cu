// tries: promises blocks of one warp by launch bounds that a template works out, where no GPU launches it on more
// stopped by: launch bounds are worked out by the compiler, and no launch has more threads
// exercise: 10_warp_reduction/sum_v6
// where: both
// expect: refused

constexpr int kWarp = 32;
#define BLOCKS_OF(warps) __launch_bounds__(kWarp * (warps), 1)

__global__ void BLOCKS_OF(1)
reduce_v6(const float *x, float *out, int n) {
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffff, sum, s);
    if (threadIdx.x % 32 == 0) atomicAdd(out, sum);
}
