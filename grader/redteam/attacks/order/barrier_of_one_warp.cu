// tries: lets one warp wait at a barrier where it alone arrives, and reads what all warps of the block have written
// stopped by: a barrier orders those who arrive at it before those who wait there, and nobody else
// exercise: 10_warp_reduction/sum_v6
// where: both
// expect: refused

#include <cuda/barrier>

__global__ void reduce_v6(const float *x, float *out, int n) {
    __shared__ float sums[32];
    __shared__ cuda::barrier<cuda::thread_scope_block> written;
    const int t = threadIdx.x, lane = t % 32, warp = t / 32, warps = blockDim.x / 32;
    if (t == 0) init(&written, 32);
    __syncthreads();
    float sum = 0.0f;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    for (int s = 16; s > 0; s /= 2) sum += __shfl_down_sync(0xffffffff, sum, s);
    if (lane == 0) sums[warp] = sum;
    if (warp == warps - 1) {
        written.arrive_and_wait();
        if (lane == 0) {
            float total = 0.0f;
            for (int w = 0; w < warps; ++w) total += sums[w];
            atomicAdd(out, total);
        }
    }
}
