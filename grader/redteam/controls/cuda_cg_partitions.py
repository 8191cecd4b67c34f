# tries: labeled and binary partitions, scans and broadcasts of cooperative groups
# exercise: 10_reduction/sum_v1
# expect: accepted

SOURCE = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

__global__ void sum_parts(const float* x, float* out, int n) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    auto quarter = cg::tiled_partition<8>(warp);
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float v = i < n ? x[i] : 0.0f;
    const float running = cg::inclusive_scan(quarter, v, cg::plus<float>());
    const float total = quarter.shfl(running, quarter.size() - 1);
    const auto odd = cg::binary_partition(warp, quarter.meta_group_rank() % 2 == 1);
    const float mine = cg::reduce(odd, quarter.thread_rank() == 0 ? total : 0.0f, cg::plus<float>());
    const auto label = cg::labeled_partition(warp, int(quarter.meta_group_rank() % 2));
    if (label.thread_rank() == 0) atomicAdd(out, mine);
}
"""
sum_parts = lab.cuda.compile(SOURCE, "sum_parts")


def sum_v1(x, out):
    out.zero_()
    n = x.numel()
    sum_parts[(n + 255) // 256, 256](x, out, n)
