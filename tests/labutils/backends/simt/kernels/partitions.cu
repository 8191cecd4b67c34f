// Groups of a warp by a condition and by a label, a tile of a tile, and a tile whose type names no parent.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

__global__ void partitions(const float* x, float* by_sign, int* ranks, int* tiles, int n) {
  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(cg::this_thread_block());
  auto eight = cg::tiled_partition<8>(warp);
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = i < n ? x[i] : 0.0f;
  auto signs = cg::binary_partition(warp, v < 0.0f);
  float total = cg::reduce(signs, v, cg::plus<float>());
  auto thirds = cg::labeled_partition(warp, int(warp.thread_rank() % 3));
  if (i < n) {
    by_sign[i] = total;
    ranks[i] = thirds.thread_rank() * 100 + thirds.size();
    tiles[i] = eight.meta_group_rank() * 100 + eight.meta_group_size() * 10 + warp.meta_group_rank();
  }
}
