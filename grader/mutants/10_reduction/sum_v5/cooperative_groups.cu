// expect: accepted
// The same by name, with cooperative groups.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void reduce_v5(const float *x, float *partial, int n) {
    __shared__ float tile[256];
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    int t = threadIdx.x;
    int i = blockIdx.x * 2 * blockDim.x + t;
    float sum = i < n ? x[i] : 0.0f;
    if (i + blockDim.x < n) sum += x[i + blockDim.x];
    tile[t] = sum;
    block.sync();
    for (int s = blockDim.x / 2; s >= 32; s /= 2) {
        if (t < s) tile[t] += tile[t + s];
        block.sync();
    }
    if (t < 32) {
        sum = tile[t];
        for (int s = 16; s > 0; s /= 2) sum += warp.shfl_down(sum, s);
        if (t == 0) partial[blockIdx.x] = sum;
    }
}
