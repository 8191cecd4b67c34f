// tries: two cuda::barriers between four warps that write and one that adds, round after round; the others return early
// exercise: 10_reduction/sum_v1
// expect: accepted
#include <cuda/barrier>

__global__ void reduce_v1(const float *x, float *partial, int n) {
    __shared__ float values[4][32];
    __shared__ cuda::barrier<cuda::thread_scope_block> written, read;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        init(&written, 5 * 32);
        init(&read, 5 * 32);
    }
    __syncthreads();
    if (warp > 4) return;
    float total = 0.0f;
    for (int round = 0; round < 2; round++) {
        if (warp) {
            const int i = blockIdx.x * blockDim.x + round * 128 + threadIdx.x - 32;
            values[warp - 1][lane] = i < n ? x[i] : 0.0f;
            (void)written.arrive();
            read.arrive_and_wait();
        } else {
            written.arrive_and_wait();
            for (int w = 0; w < 4; w++) total += values[w][lane];
            (void)read.arrive();
        }
    }
    for (int s = 16; s > 0; s /= 2) total += __shfl_down_sync(0xffffffff, total, s);
    if (threadIdx.x == 0) partial[blockIdx.x] = total;
}
