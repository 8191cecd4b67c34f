# tries: a grid-wide barrier of cooperative groups between partial sums and their sum
# exercise: 10_reduction/sum_v1
# expect: accepted

import torch

SOURCE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void sum_all(const float* x, float* partial, float* out, int n) {
    __shared__ float warps[8];
    cg::grid_group grid = cg::this_grid();
    cg::thread_block block = cg::this_thread_block();
    float v = 0.0f;
    for (unsigned long long i = grid.thread_rank(); i < n; i += grid.size()) v += x[i];
    auto tile = cg::tiled_partition<32>(block);
    for (int s = tile.size() / 2; s > 0; s /= 2) v += tile.shfl_xor(v, s);
    if (tile.thread_rank() == 0) warps[tile.meta_group_rank()] = v;
    block.sync();
    if (block.thread_rank() == 0) {
        float total = 0.0f;
        for (int w = 0; w < 8; w++) total += warps[w];
        partial[blockIdx.x] = total;
    }
    grid.sync();
    if (grid.thread_rank() == 0) {
        float total = 0.0f;
        for (unsigned b = 0; b < gridDim.x; b++) total += partial[b];
        *out = total;
    }
}
"""
sum_all = lab.cuda.compile(SOURCE, "sum_all")


def sum_v1(x, out):
    n = x.numel()
    blocks = min(8, (n + 255) // 256)
    sum_all[blocks, 256](x, torch.empty(blocks, device=x.device), out, n)
