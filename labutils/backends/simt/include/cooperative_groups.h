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
struct thread_block_tile;
// What a tile's own number counts in: the block, or the tile that was partitioned.
template <class Parent>
struct simt_tile_parent {
  SIMT_INLINE static unsigned rank() { return simt_rank(); }
  SIMT_INLINE static unsigned size() { return thread_block().size(); }
};
template <unsigned N, class Parent>
struct simt_tile_parent<thread_block_tile<N, Parent>> {
  SIMT_INLINE static unsigned rank() { return simt_lane() % N; }
  SIMT_INLINE static unsigned size() { return N; }
};

template <unsigned N, class Parent>
struct thread_block_tile {
  thread_block_tile() = default;
  // A tile of a known parent is a tile: thread_block_tile<32> warp = tiled_partition<32>(block).
  template <class Other>
  SIMT_INLINE thread_block_tile(const thread_block_tile<N, Other>&) {}
  static_assert(N <= 32 && (N & (N - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");
  SIMT_INLINE unsigned simt_first() const { return simt_lane() & ~(N - 1); }
  SIMT_INLINE unsigned simt_mask() const { return N == 32 ? 0xffffffffu : ((1u << (N & 31)) - 1) << simt_first(); }
  SIMT_INLINE void sync() const { simt_collective("tile.sync", simt_mask(), nullptr, nullptr); }
  SIMT_INLINE unsigned thread_rank() const { return simt_lane() % N; }
  static constexpr unsigned num_threads() { return N; }
  static constexpr unsigned size() { return N; }
  SIMT_INLINE unsigned meta_group_rank() const { return simt_tile_parent<Parent>::rank() / N; }
  SIMT_INLINE unsigned meta_group_size() const { return (simt_tile_parent<Parent>::size() + N - 1) / N; }
  template <class T>
  SIMT_INLINE T shfl(T v, int source) const {
    return __shfl_sync(simt_mask(), v, source, N);
  }
  template <class T>
  SIMT_INLINE T shfl_up(T v, unsigned delta) const {
    return __shfl_up_sync(simt_mask(), v, delta, N);
  }
  template <class T>
  SIMT_INLINE T shfl_down(T v, unsigned delta) const {
    return __shfl_down_sync(simt_mask(), v, delta, N);
  }
  template <class T>
  SIMT_INLINE T shfl_xor(T v, int bits) const {
    return __shfl_xor_sync(simt_mask(), v, bits, N);
  }
  SIMT_INLINE unsigned ballot(int p) const { return __ballot_sync(simt_mask(), p) >> simt_first(); }
  SIMT_INLINE int any(int p) const { return __any_sync(simt_mask(), p); }
  SIMT_INLINE int all(int p) const { return __all_sync(simt_mask(), p); }
  template <class T>
  SIMT_INLINE unsigned match_any(T v) const {
    return __match_any_sync(simt_mask(), v) >> simt_first();
  }
};
template <unsigned N, class Parent>
SIMT_INLINE thread_block_tile<N, Parent> tiled_partition(const Parent&) {
  return {};
}

struct coalesced_group {
  unsigned simt_lanes;
  SIMT_INLINE unsigned simt_mask() const { return simt_lanes; }
  SIMT_INLINE unsigned num_threads() const { return __popc(simt_lanes); }
  SIMT_INLINE unsigned size() const { return num_threads(); }
  SIMT_INLINE unsigned thread_rank() const { return __popc(simt_lanes & ((1u << simt_lane()) - 1)); }
  SIMT_INLINE void sync() const { simt_collective("coalesced_group::sync", simt_lanes, nullptr, nullptr); }
  // The lane that has this rank in the group.
  SIMT_INLINE int simt_lane_of(unsigned rank) const {
    unsigned m = simt_lanes;
    while (rank--) m &= m - 1;
    return __ffs((int)m) - 1;
  }
  template <class T>
  SIMT_INLINE T shfl(T v, unsigned rank) const {
    return __shfl_sync(simt_lanes, v, simt_lane_of(rank % size()));
  }
  template <class T>
  SIMT_INLINE T shfl_down(T v, unsigned delta) const {
    unsigned rank = thread_rank() + delta;
    return __shfl_sync(simt_lanes, v, rank < size() ? simt_lane_of(rank) : (int)simt_lane());
  }
  template <class T>
  SIMT_INLINE T shfl_up(T v, unsigned delta) const {
    unsigned rank = thread_rank();
    return __shfl_sync(simt_lanes, v, rank >= delta ? simt_lane_of(rank - delta) : (int)simt_lane());
  }
  SIMT_INLINE int any(int p) const { return __any_sync(simt_lanes, p); }
  SIMT_INLINE int all(int p) const { return __all_sync(simt_lanes, p); }
  // Bit k is the vote of the thread of rank k.
  SIMT_INLINE unsigned ballot(int p) const {
    unsigned votes = __ballot_sync(simt_lanes, p), packed = 0, m = simt_lanes;
    for (unsigned rank = 0; m; rank++, m &= m - 1) packed |= (votes >> (__ffs((int)m) - 1) & 1u) << rank;
    return packed;
  }
};
SIMT_INLINE coalesced_group coalesced_threads() { return {simt_active_mask()}; }

// Threads of a tile or a coalesced group with the same label, or the same answer.
template <class Group, class T>
SIMT_INLINE coalesced_group labeled_partition(const Group& g, T label) {
  return {__match_any_sync(g.simt_mask(), label)};
}
template <class Group>
SIMT_INLINE coalesced_group binary_partition(const Group& g, bool answer) {
  unsigned yes = __ballot_sync(g.simt_mask(), answer);
  return {answer ? yes : g.simt_mask() & ~yes};
}

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

}  // namespace cooperative_groups

// Operators and element types of ours run where one lane works for all and nothing is recorded. What a kernel brings
// itself, an operator or a type whose `+` it defines, runs in each lane, where its accesses count.
namespace simt {
enum { own_plus = 1, own_less, own_greater, own_and, own_or, own_xor };
template <class Op, class T>
constexpr int own_operator = 0;
#define SIMT_OWN_OPERATOR(name, number) \
  template <class T>                    \
  inline constexpr int own_operator<cooperative_groups::name<T>, T> = number;
SIMT_OWN_OPERATOR(plus, own_plus)
SIMT_OWN_OPERATOR(less, own_less)
SIMT_OWN_OPERATOR(greater, own_greater)
SIMT_OWN_OPERATOR(bit_and, own_and)
SIMT_OWN_OPERATOR(bit_or, own_or)
SIMT_OWN_OPERATOR(bit_xor, own_xor)
#undef SIMT_OWN_OPERATOR

template <class T>
constexpr bool is_number = (kind_of<T> < kind_pointer && !__is_enum(T)) || atomic_type<T>() != 0;

// Not the operator itself: a kernel may have given cooperative_groups::plus<int> another meaning.
template <int Operator, class T>
SIMT_INLINE T applied(T a, T b) {
  if constexpr (Operator == own_plus) return a + b;
  if constexpr (Operator == own_less) return b < a ? b : a;
  if constexpr (Operator == own_greater) return a < b ? b : a;
  if constexpr (Operator == own_and) return a & b;
  if constexpr (Operator == own_or) return a | b;
  if constexpr (Operator == own_xor) return a ^ b;
}

template <class T, int Operator>
SIMT_UNTRACED void combine_reduction(void** payloads, unsigned, unsigned present) {
  T total{};
  bool any = false;
  for (int lane = 0; lane < 32; lane++) {
    if (!(present >> lane & 1)) continue;
    T value = *(T*)payloads[lane];
    total = any ? applied<Operator>(total, value) : value;
    any = true;
  }
  for (int lane = 0; lane < 32; lane++)
    if (present >> lane & 1) *(T*)payloads[lane] = total;
}
template <class T, int Operator>
SIMT_UNTRACED void combine_scan(void** payloads, unsigned, unsigned present) {
  T total{};
  bool any = false;
  for (int lane = 0; lane < 32; lane++) {
    if (!(present >> lane & 1)) continue;
    T& value = *(T*)payloads[lane];
    value = total = any ? applied<Operator>(total, value) : value;
    any = true;
  }
}

// One lane's bytes, and room for those of all lanes.
struct Exchange {
  const unsigned char* mine;
  unsigned char* all;
  unsigned bytes, present;
};
SIMT_UNTRACED inline void exchange(void** payloads, unsigned, unsigned present) {
  for (int to = 0; to < 32; to++) {
    if (!(present >> to & 1)) continue;
    Exchange& e = *(Exchange*)payloads[to];
    e.present = present;
    for (int from = 0; from < 32; from++)
      if (present >> from & 1)
        for (unsigned i = 0; i < e.bytes; i++) e.all[from * e.bytes + i] = ((Exchange*)payloads[from])->mine[i];
  }
}

// The value of the lane at this distance.
template <class T>
struct Swap {
  T mine, other;
};
template <class T, unsigned Distance>
SIMT_UNTRACED void combine_swap(void** payloads, unsigned, unsigned present) {
  for (int lane = 0; lane < 32; lane++)
    if (present >> lane & 1 && present >> (lane ^ Distance) & 1)
      __builtin_memcpy(&((Swap<T>*)payloads[lane])->other, &((Swap<T>*)payloads[lane ^ Distance])->mine, sizeof(T));
}

// As CUDA reduces a tile: lanes combine what they have with a neighbor's, at half the distance each time.
template <unsigned Distance, class T, class Op>
SIMT_INLINE T tree(unsigned mask, const T& value, Op op) {
  if constexpr (Distance == 0) {
    return value;
  } else {
    Swap<T> pair{value, value};
    simt_collective("cg::reduce", mask, &pair, &combine_swap<T, Distance>);
    const bool upper = simt_lane() & Distance;  // one call for all lanes: what it reads is one request
    return tree<Distance / 2>(mask, op(upper ? pair.other : pair.mine, upper ? pair.mine : pair.other), op);
  }
}

// The values of the lanes up to `last` combined in their order, by every lane for itself.
template <class T, class Op>
SIMT_INLINE T fold(const char* what, unsigned mask, const T& value, Op op, unsigned last) {
  alignas(T) unsigned char all[32 * sizeof(T)];
  Exchange mine{(const unsigned char*)&value, all, (unsigned)sizeof(T), 0};
  simt_collective(what, mask, &mine, &exchange);
  unsigned lane = 0;
  while (!(mine.present >> lane & 1)) lane++;
  T total = ((const T*)all)[lane];
  while (++lane <= last)
    if (mine.present >> lane & 1) total = op(total, ((const T*)all)[lane]);
  return total;
}
}  // namespace simt

namespace cooperative_groups {

template <class Group, class T, class Op>
SIMT_INLINE T reduce(const Group& g, T value, Op op) {
  if constexpr (simt::own_operator<Op, T> && simt::is_number<T>) {
    simt_collective("cg::reduce", g.simt_mask(), &value, &simt::combine_reduction<T, simt::own_operator<Op, T>>);
    return value;
  } else {
    return simt::fold("cg::reduce", g.simt_mask(), value, op, 31);
  }
}
template <unsigned N, class Parent, class T, class Op>
SIMT_INLINE T reduce(const thread_block_tile<N, Parent>& g, T value, Op op) {
  if constexpr (simt::own_operator<Op, T> && simt::is_number<T>) {
    simt_collective("cg::reduce", g.simt_mask(), &value, &simt::combine_reduction<T, simt::own_operator<Op, T>>);
    return value;
  } else {
    return simt::tree<N / 2>(g.simt_mask(), value, op);
  }
}
template <class Group, class T, class Op>
SIMT_INLINE T inclusive_scan(const Group& g, T value, Op op) {
  if constexpr (simt::own_operator<Op, T> && simt::is_number<T>) {
    simt_collective("cg::inclusive_scan", g.simt_mask(), &value, &simt::combine_scan<T, simt::own_operator<Op, T>>);
    return value;
  } else {
    return simt::fold("cg::inclusive_scan", g.simt_mask(), value, op, simt_lane());
  }
}
template <class Group, class T>
SIMT_INLINE T inclusive_scan(const Group& g, T value) {
  return inclusive_scan(g, value, plus<T>());
}
template <class Group, class T>
SIMT_INLINE T exclusive_scan(const Group& g, T value) {
  return inclusive_scan(g, value, plus<T>()) - value;
}

// ---- copies shared out over a group: each of its threads waits for its own, then all meet

}  // namespace cooperative_groups

namespace simt {
template <class Group, class T>
SIMT_INLINE void copy_shared_out(const Group& g, T* to, const T* from, size_t bytes, const void* barrier = nullptr) {
  for (size_t i = g.thread_rank(); i < bytes / sizeof(T); i += g.size()) store_later(to + i, from[i], barrier);
}
}  // namespace simt

namespace cooperative_groups {

template <class Group, class T>
SIMT_INLINE void memcpy_async(const Group& g, T* to, const T* from, size_t bytes) {
  simt::copy_shared_out(g, to, from, bytes);
  simt::commit_copies();
}
SIMT_INLINE void wait(const thread_block& g, SIMT_LINE) {
  simt::wait_copies(0);
  g.sync(line);
}
template <class Group>
SIMT_INLINE void wait(const Group& g) {
  simt::wait_copies(0);
  g.sync();
}
template <unsigned Prior>
SIMT_INLINE void wait_prior(const thread_block& g, SIMT_LINE) {
  simt::wait_copies(Prior);
  g.sync(line);
}

}  // namespace cooperative_groups
