// tries: two cuda::barriers between warps that write partial sums and one that adds them up, round after round
// exercise: 10_warp_reduction/sum_v6
// expect: accepted
#include <cuda/barrier>

__global__ void reduce_v6(const float *x, float *out, int n) {
    __shared__ float sums[8][32];
    __shared__ cuda::barrier<cuda::thread_scope_block> written, read;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, writers = blockDim.x - 32;
    if (threadIdx.x == 0) {
        init(&written, blockDim.x);
        init(&read, blockDim.x);
    }
    __syncthreads();
    const float4 *quads = reinterpret_cast<const float4 *>(x);
    const int step = gridDim.x * writers, rounds = (n / 4 + step - 1) / step;
    float total = 0.0f;
    for (int r = 0; r < rounds; r++) {
        if (warp) {
            const int q = r * step + blockIdx.x * writers + threadIdx.x - 32;
            const float4 v = q < n / 4 ? quads[q] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            sums[warp][lane] = (v.x + v.y) + (v.z + v.w);
            (void)written.arrive();
            read.arrive_and_wait();
        } else {
            written.arrive_and_wait();
            for (int w = 1; w < blockDim.x / 32; w++) total += sums[w][lane];
            (void)read.arrive();
        }
    }
    if (blockIdx.x == 0 && threadIdx.x < n % 4) total += x[n / 4 * 4 + threadIdx.x];
    for (int s = 16; s > 0; s /= 2) total += __shfl_down_sync(0xffffffff, total, s);
    if (threadIdx.x == 0) atomicAdd(out, total);
}
