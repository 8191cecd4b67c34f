# tries: cooperative groups for a block's sum, with printf and assert
# exercise: 00_start/scale_cuda
# expect: accepted

SOURCE = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

__global__ void scale(const float* x, float factor, float* out, int n) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    const int i = block.group_index().x * block.size() + block.thread_rank();
    const int living = cg::reduce(warp, i < n ? 1 : 0, cg::plus<int>());
    assert(living <= 32);
    if (i == 0) printf("%d of %d lanes, factor %.3f (100%% sure)\n", living, warp.size(), factor);
    if (i < n) out[i] = factor * x[i];
}
"""
scale = lab.cuda.compile(SOURCE, "scale")


def scale_cuda(x, factor, out):
    n = x.numel()
    scale[(n + 127) // 128, 128](x, factor, out, n)
