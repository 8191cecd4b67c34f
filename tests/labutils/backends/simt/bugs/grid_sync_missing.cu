// expect: race x
#include <cooperative_groups.h>
__global__ void grid_sync_missing(float* x) {
    x[blockIdx.x] = blockIdx.x;    // BUG
    float next = x[(blockIdx.x + 1) % gridDim.x];    // BUG
    cooperative_groups::this_grid().sync();
    x[blockIdx.x] = next;
}
