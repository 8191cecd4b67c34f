// expect: missing-syncwarp s
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void tile_sync_too_small(const float* x, float* y) {
    __shared__ float s[32];
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    s[threadIdx.x] = x[threadIdx.x];    // BUG
    tile.sync();
    y[threadIdx.x] = s[threadIdx.x ^ 8];    // BUG
}
