#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

__global__ void tile_reduce(const int* x, int* out, int n) {
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<32>(block);
    auto small = cg::tiled_partition<16>(block);
    int v = 0;
    for (int i = blockIdx.x * blockDim.x + block.thread_rank(); i < n; i += gridDim.x * blockDim.x) v += x[i];
    int s = cg::reduce(tile, v, cg::plus<int>());
    int h = cg::reduce(small, v, cg::plus<int>());
    int most = cg::reduce(tile, v, cg::greater<int>());
    if (tile.thread_rank() == 0) atomicAdd(out, s);
    if (small.thread_rank() == 0) atomicAdd(out + 1, h);
    if (tile.thread_rank() == 0) atomicMax(out + 2, most);
    block.sync();
}
