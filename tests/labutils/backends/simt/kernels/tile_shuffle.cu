#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// each tile of 8 on its own: its sum, rotated values, and votes
__global__ void tile_shuffle(const int* x, int* sums, int* turned, int* votes) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i], sum = v;
    for (int o = tile.size() / 2; o; o /= 2) sum += tile.shfl_down(sum, o);
    turned[i] = tile.shfl(v, tile.thread_rank() + 1);
    unsigned odd = tile.ballot(v & 1);
    if (tile.thread_rank() == 0) {
        sums[i / 8] = sum;
        votes[i / 8] = (int)odd;
    }
    tile.sync();
}
