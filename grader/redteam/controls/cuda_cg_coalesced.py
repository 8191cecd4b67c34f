# tries: warp-aggregated additions by the coalesced threads of a branch
# exercise: 10_reduction/sum_v1
# expect: accepted

SOURCE = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
using namespace cooperative_groups;

__global__ void sum_coalesced(const float* x, float* out, int n)
{
    const int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
        coalesced_group active = coalesced_threads();
        const float part = reduce(active, x[i], plus<float>());
        if (active.thread_rank() == 0) atomicAdd(out, part);
    }
}
"""
kernel = lab.cuda.compile(SOURCE, "sum_coalesced")


def sum_v1(x, out):
    out.zero_()
    n = x.numel()
    kernel[(n + 1023) // 1024, 256](x, out, n)
