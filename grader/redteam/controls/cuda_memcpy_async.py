# tries: memcpy_async of a group of threads, and a wait for it
# exercise: 07_elementwise_cuda/row_scale
# expect: accepted

SOURCE = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;

__global__ void scale_row(const float* __restrict__ x, const float* __restrict__ scale, float* __restrict__ out, int N) {
    extern __shared__ float staged[];
    cg::thread_block block = cg::this_thread_block();
    const int first = blockIdx.y * 512, count = min(512, N - first);
    const size_t at = (size_t)blockIdx.x * N + first;
    cg::memcpy_async(block, staged, x + at, sizeof(float) * count);
    const float s = scale[blockIdx.x];
    cg::wait(block);
    for (int i = block.thread_rank(); i < count; i += block.size()) out[at + i] = s * staged[i];
}
"""
scale_row = lab.cuda.compile(SOURCE, "scale_row")


def row_scale(x, scale, out):
    M, N = x.shape
    scale_row[(M, (N + 511) // 512), 128, 512 * 4](x, scale, out, N)
