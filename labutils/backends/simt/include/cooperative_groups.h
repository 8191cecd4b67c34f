// Cooperative groups: the block, the grid, tiles of a warp, and the lanes that are active together.
#pragma once
#include "simt.h"

namespace cooperative_groups {

struct thread_block {
  SIMT_INLINE void sync(SIMT_LINE) const { simt_barrier("thread_block::sync", line); }
  SIMT_INLINE unsigned thread_rank() const { return simt_rank(); }
  SIMT_INLINE unsigned num_threads() const {
    uint3 d = simt_block_size();
    return d.x * d.y * d.z;
  }
  SIMT_INLINE unsigned size() const { return num_threads(); }
  SIMT_INLINE dim3 group_index() const { return simt_block_index(); }
  SIMT_INLINE dim3 thread_index() const { return simt_thread_index(); }
  SIMT_INLINE dim3 group_dim() const { return simt_block_size(); }
  SIMT_INLINE dim3 dim_threads() const { return simt_block_size(); }
};
SIMT_INLINE thread_block this_thread_block() { return {}; }

struct grid_group {
  SIMT_INLINE void sync(SIMT_LINE) const { simt_grid_barrier(line); }
  SIMT_INLINE unsigned long long block_rank() const {
    uint3 b = simt_block_index(), g = simt_grid_size();
    return ((unsigned long long)b.z * g.y + b.y) * g.x + b.x;
  }
  SIMT_INLINE unsigned long long num_blocks() const {
    uint3 g = simt_grid_size();
    return (unsigned long long)g.x * g.y * g.z;
  }
  SIMT_INLINE unsigned long long thread_rank() const {
    return block_rank() * thread_block().size() + simt_rank();
  }
  SIMT_INLINE unsigned long long num_threads() const { return num_blocks() * thread_block().size(); }
  SIMT_INLINE unsigned long long size() const { return num_threads(); }
  SIMT_INLINE dim3 group_dim() const { return simt_grid_size(); }
  SIMT_INLINE dim3 dim_blocks() const { return simt_grid_size(); }
  SIMT_INLINE bool is_valid() const { return true; }
};
SIMT_INLINE grid_group this_grid() { return {}; }

template <unsigned N, class Parent = void>
struct thread_block_tile {
  static_assert(N <= 32 && (N & (N - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");
  SIMT_INLINE unsigned first() const { return simt_lane() & ~(N - 1); }
  SIMT_INLINE unsigned mask() const { return N == 32 ? 0xffffffffu : ((1u << (N & 31)) - 1) << first(); }
  SIMT_INLINE void sync() const { simt_collective("tile.sync", mask(), nullptr, nullptr); }
  SIMT_INLINE unsigned thread_rank() const { return simt_lane() % N; }
  static constexpr unsigned num_threads() { return N; }
  static constexpr unsigned size() { return N; }
  SIMT_INLINE unsigned meta_group_rank() const { return simt_rank() / N; }
  SIMT_INLINE unsigned meta_group_size() const { return (thread_block().size() + N - 1) / N; }
  template <class T>
  SIMT_INLINE T shfl(T v, int source) const {
    return __shfl_sync(mask(), v, source, N);
  }
  template <class T>
  SIMT_INLINE T shfl_up(T v, unsigned delta) const {
    return __shfl_up_sync(mask(), v, delta, N);
  }
  template <class T>
  SIMT_INLINE T shfl_down(T v, unsigned delta) const {
    return __shfl_down_sync(mask(), v, delta, N);
  }
  template <class T>
  SIMT_INLINE T shfl_xor(T v, int bits) const {
    return __shfl_xor_sync(mask(), v, bits, N);
  }
  SIMT_INLINE unsigned ballot(int p) const { return __ballot_sync(mask(), p) >> first(); }
  SIMT_INLINE int any(int p) const { return __any_sync(mask(), p); }
  SIMT_INLINE int all(int p) const { return __all_sync(mask(), p); }
  template <class T>
  SIMT_INLINE unsigned match_any(T v) const {
    return __match_any_sync(mask(), v) >> first();
  }
};
template <unsigned N, class Parent>
SIMT_INLINE thread_block_tile<N, Parent> tiled_partition(const Parent&) {
  return {};
}

struct coalesced_group {
  unsigned lanes;
  SIMT_INLINE unsigned mask() const { return lanes; }
  SIMT_INLINE unsigned num_threads() const { return __popc(lanes); }
  SIMT_INLINE unsigned size() const { return num_threads(); }
  SIMT_INLINE unsigned thread_rank() const { return __popc(lanes & ((1u << simt_lane()) - 1)); }
  SIMT_INLINE void sync() const { simt_collective("coalesced_group::sync", lanes, nullptr, nullptr); }
  // The lane that has this rank in the group.
  SIMT_INLINE int lane_of(unsigned rank) const {
    unsigned m = lanes;
    while (rank--) m &= m - 1;
    return __ffs((int)m) - 1;
  }
  template <class T>
  SIMT_INLINE T shfl(T v, unsigned rank) const {
    return __shfl_sync(lanes, v, lane_of(rank % size()));
  }
  template <class T>
  SIMT_INLINE T shfl_down(T v, unsigned delta) const {
    unsigned rank = thread_rank() + delta;
    return __shfl_sync(lanes, v, rank < size() ? lane_of(rank) : (int)simt_lane());
  }
  template <class T>
  SIMT_INLINE T shfl_up(T v, unsigned delta) const {
    unsigned rank = thread_rank();
    return __shfl_sync(lanes, v, rank >= delta ? lane_of(rank - delta) : (int)simt_lane());
  }
  SIMT_INLINE int any(int p) const { return __any_sync(lanes, p); }
  SIMT_INLINE int all(int p) const { return __all_sync(lanes, p); }
};
SIMT_INLINE coalesced_group coalesced_threads() { return {simt_active_mask()}; }

SIMT_INLINE void sync(const thread_block& g, SIMT_LINE) { g.sync(line); }
SIMT_INLINE void sync(const grid_group& g, SIMT_LINE) { g.sync(line); }
template <class Group>
SIMT_INLINE void sync(const Group& g) {
  g.sync();
}

// ---- reductions and scans over a tile

#define SIMT_OPERATOR(name, expression)                             \
  template <class T = void>                                         \
  struct name {                                                     \
    SIMT_INLINE T operator()(T a, T b) const { return expression; } \
  };
SIMT_OPERATOR(plus, a + b)
SIMT_OPERATOR(less, b < a ? b : a)
SIMT_OPERATOR(greater, a < b ? b : a)
SIMT_OPERATOR(bit_and, a& b)
SIMT_OPERATOR(bit_or, a | b)
SIMT_OPERATOR(bit_xor, a ^ b)
#undef SIMT_OPERATOR

template <class T, class Op>
SIMT_UNTRACED void combine_reduction(void** payloads, unsigned, unsigned present) {
  T total{};
  bool any = false;
  for (int lane = 0; lane < 32; lane++) {
    if (!(present >> lane & 1)) continue;
    T value = *(T*)payloads[lane];
    total = any ? Op()(total, value) : value;
    any = true;
  }
  for (int lane = 0; lane < 32; lane++)
    if (present >> lane & 1) *(T*)payloads[lane] = total;
}
template <class T, class Op>
SIMT_UNTRACED void combine_scan(void** payloads, unsigned, unsigned present) {
  T total{};
  bool any = false;
  for (int lane = 0; lane < 32; lane++) {
    if (!(present >> lane & 1)) continue;
    T& value = *(T*)payloads[lane];
    value = total = any ? Op()(total, value) : value;
    any = true;
  }
}

template <class Group, class T, class Op>
SIMT_INLINE T reduce(const Group& g, T value, Op) {
  simt_collective("cg::reduce", g.mask(), &value, &combine_reduction<T, Op>);
  return value;
}
template <class Group, class T, class Op>
SIMT_INLINE T inclusive_scan(const Group& g, T value, Op) {
  simt_collective("cg::inclusive_scan", g.mask(), &value, &combine_scan<T, Op>);
  return value;
}
template <class Group, class T>
SIMT_INLINE T inclusive_scan(const Group& g, T value) {
  return inclusive_scan(g, value, plus<T>());
}
template <class Group, class T>
SIMT_INLINE T exclusive_scan(const Group& g, T value) {
  return inclusive_scan(g, value, plus<T>()) - value;
}

// ---- copies shared out over a group, done at once

template <class Group, class T>
SIMT_INLINE void memcpy_async(const Group& g, T* to, const T* from, size_t bytes) {
  for (size_t i = g.thread_rank(); i < bytes / sizeof(T); i += g.size()) to[i] = from[i];
}
SIMT_INLINE void wait(const thread_block& g, SIMT_LINE) { g.sync(line); }
template <class Group>
SIMT_INLINE void wait(const Group& g) {
  g.sync();
}
template <unsigned Prior>
SIMT_INLINE void wait_prior(const thread_block& g, SIMT_LINE) {
  g.sync(line);
}

}  // namespace cooperative_groups
