// expect: deadlock
#include <cooperative_groups.h>
__global__ void grid_sync_skipped(float* x) {
    if (blockIdx.x == 1) return;
    x[blockIdx.x] = 1;
    cooperative_groups::this_grid().sync();    // BUG
    x[blockIdx.x] += 1;
}
