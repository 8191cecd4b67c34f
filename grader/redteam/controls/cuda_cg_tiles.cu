// tries: cooperative groups: tiles, their reduction and shuffles, a group's sync
// exercise: 10_warp_reduction/sum_v5
// expect: accepted
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

template <typename Group>
__device__ float tile_sum(const Group& g, float v) {
    for (int offset = g.size() / 2; offset > 0; offset >>= 1) v += g.shfl_down(v, offset);
    return v;
}

__global__ void reduce_v5(const float *x, float *partial, int n) {
    __shared__ float warp_total[8];
    cg::thread_block cta = cg::this_thread_block();
    cg::thread_block_tile<32> tile = cg::tiled_partition<32>(cta);
    const unsigned int first = 2 * cta.group_index().x * cta.size() + cta.thread_rank();
    float v = 0.0f;
    if (first < n) v = x[first];
    if (first + cta.num_threads() < n) v += x[first + cta.num_threads()];
    v = cg::reduce(tile, v, cg::plus<float>());
    if (tile.thread_rank() == 0) warp_total[tile.meta_group_rank()] = v;
    cg::sync(cta);
    if (tile.meta_group_rank() == 0) {
        v = tile.thread_rank() < tile.meta_group_size() ? warp_total[tile.thread_rank()] : 0.0f;
        auto octet = cg::tiled_partition<8>(tile);
        v = tile_sum(octet, v);
        if (tile.thread_rank() == 0) partial[blockIdx.x] = v;
    }
}
