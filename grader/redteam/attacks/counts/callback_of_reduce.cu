// tries: loads and stores inside the operator that it hands to cg::reduce
// stopped by: no code of a submission runs where nothing is recorded
// exercise: 08_coalescing/transpose
// where: both
// expect: no undue points
// due: 3

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
struct Move {
    const float* from;
    float* to;
};
struct Last {
    __device__ Move operator()(Move a, Move b) const {
        if (a.to) *a.to = *a.from;
        if (b.to) *b.to = *b.from;
        return b;
    }
};
__global__ void transpose_kernel(float* __restrict__ out, const float* __restrict__ x, int M, int N) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    for (int k = 0; k < 32; k += 8) {
        const int m = blockIdx.y * 32 + threadIdx.y + k, n = blockIdx.x * 32 + threadIdx.x;
        const bool inside = m < M && n < N;
        cg::reduce(warp, Move{inside ? &x[m * N + n] : nullptr, inside ? &out[n * M + m] : nullptr}, Last());
    }
}
