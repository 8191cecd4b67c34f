// Cooperative groups as NVIDIA's programming guide documents them; for test_groups.py.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

__device__ int sum_of(const cg::thread_group g, int* room, int value) {
  int rank = g.thread_rank();
  for (int i = g.size() / 2; i > 0; i /= 2) {
    room[rank] = value;
    g.sync();
    if (rank < i) value += room[rank + i];
    g.sync();
  }
  return value;
}

__global__ void partitions(int* out) {
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
  cg::thread_block_tile<4> four = cg::tiled_partition<4>(warp);
  cg::coalesced_group same = cg::labeled_partition(warp, warp.thread_rank() % 3);
  cg::coalesced_group half = cg::binary_partition(warp, warp.thread_rank() < 8);
  cg::thread_group eight = cg::tiled_partition(block, 8);
  __shared__ int room[64];
  int t = block.thread_rank(), *o = out + t * 12;
  o[0] = warp.meta_group_rank() * 100 + warp.thread_rank();
  o[1] = four.meta_group_rank() * 100 + four.meta_group_size();
  o[2] = same.thread_rank() * 100 + same.size();
  o[3] = same.meta_group_rank() * 100 + same.meta_group_size();
  o[4] = cg::reduce(same, t, cg::plus<int>());
  warp.sync();
  o[5] = half.meta_group_rank() * 100 + half.size();
  o[6] = eight.thread_rank() * 100 + eight.size();
  o[7] = sum_of(eight, room + t / 8 * 8, t);
  block.sync();
  o[8] = sum_of(block, room, t);
  o[9] = cg::invoke_one_broadcast(warp, [&](int add) { return t + add; }, 1000);
  cg::invoke_one(four, [&] { atomicAdd(out + 64 * 12, 1); });
  o[10] = -1;
  if (t % 2) {
    cg::coalesced_group active = cg::coalesced_threads();
    o[10] = active.thread_rank() * 100 + active.shfl_down(t, 1);
  }
  o[11] = four.match_any(t & 1);
}

struct Scaled {
  int factor;
  __device__ int operator()(int a, int b) const { return a + b + factor; }
};
struct Counting {
  int calls = 0;
  __device__ float operator()(float a, float b) { return calls++, a > b ? a : b; }
};

__global__ void operators(int* out, int scale) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  int t = threadIdx.x, *o = out + t * 6;
  o[0] = cg::reduce(warp, t, Scaled{scale});
  o[1] = cg::inclusive_scan(warp, t, [scale](int a, int b) { return a + b + scale; });
  o[2] = cg::exclusive_scan(warp, t, Scaled{scale});
  o[3] = cg::exclusive_scan(warp, t);
  Counting most;
  o[4] = (int)cg::reduce(cg::coalesced_threads(), (float)t, [&](float a, float b) { return most(a, b); });
  o[5] = most.calls;
}

__global__ void several_warps(float* out) {
  __shared__ cg::block_tile_memory<256> memory;
  __shared__ float s[256];
  auto block = cg::this_thread_block(memory);
  auto tile = cg::tiled_partition<128>(block);
  int t = threadIdx.x;
  s[t] = t;
  tile.sync();
  float other = s[tile.meta_group_rank() * 128 + 127 - tile.thread_rank()];
  if (tile.meta_group_rank() == 0) tile.sync();
  out[t] = other + cg::reduce(tile, 1.0f, cg::plus<float>());
}

__global__ void copies(const float* in, float* out) {
  __shared__ float s[128];
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  const int first = warp.meta_group_rank() * 32;
  cg::memcpy_async(warp, s + first, 32, in + first, 40);
  cg::wait_prior<0>(warp);
  out[threadIdx.x] = s[first + 31 - warp.thread_rank()];
}
