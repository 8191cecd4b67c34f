// Cooperative groups: the block, the grid, tiles of a warp, and the lanes that are active together.
#pragma once
#include "simt.h"

namespace simt {
// Groups move values of up to 32 bytes, which the warp's own functions do not.
template <class T>
SIMT_INLINE T group_shuffled(const char* what, unsigned mask, T v, int argument, int width, int mode) {
  static_assert(sizeof(T) <= 32, "a group's shfl moves values of at most 32 bytes");
  return shuffled(what, mask, v, argument, width, mode);
}
}  // namespace simt

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

// What tiles of more than a warp exchange values through, before compute capability 8.0. The emulator has its own.
template <unsigned MaxThreads>
struct block_tile_memory {
  alignas(16) char simt_unused[MaxThreads / 32 * 64];
};
template <unsigned MaxThreads>
SIMT_INLINE thread_block this_thread_block(block_tile_memory<MaxThreads>&) {
  return {};
}

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

template <unsigned N, class Parent = void, bool Warps = (N > 32)>
struct thread_block_tile;
// What a tile's own number counts in: the block, or the tile that was partitioned.
template <class Parent>
struct simt_tile_parent {
  SIMT_INLINE static unsigned rank() { return simt_rank(); }
  SIMT_INLINE static unsigned size() { return thread_block().size(); }
};
template <unsigned N, class Parent>
struct simt_tile_parent<thread_block_tile<N, Parent>> {
  SIMT_INLINE static unsigned rank() { return simt_rank() % N; }
  SIMT_INLINE static unsigned size() { return N; }
};

// Which of its parent's tiles a tile is, and of how many.
template <unsigned N, class Parent>
struct simt_tile_place {
  simt_tile_place() = default;
  template <class Tile>
  SIMT_INLINE explicit simt_tile_place(const Tile&) {}
  SIMT_INLINE unsigned meta_group_rank() const { return simt_tile_parent<Parent>::rank() / N; }
  SIMT_INLINE unsigned meta_group_size() const { return (simt_tile_parent<Parent>::size() + N - 1) / N; }
};
// A type without the parent takes both from the tile that it was made of.
template <unsigned N>
struct simt_tile_place<N, void> {
  unsigned simt_part = 0, simt_parts = 1;
  simt_tile_place() = default;
  template <class Tile>
  SIMT_INLINE explicit simt_tile_place(const Tile& t)
      : simt_part(t.meta_group_rank()), simt_parts(t.meta_group_size()) {}
  SIMT_INLINE unsigned meta_group_rank() const { return simt_part; }
  SIMT_INLINE unsigned meta_group_size() const { return simt_parts; }
};

template <unsigned N, class Parent>
struct thread_block_tile<N, Parent, false> : simt_tile_place<N, Parent> {
  thread_block_tile() = default;
  // A tile of a known parent is a tile: thread_block_tile<32> warp = tiled_partition<32>(block).
  template <class Other>
  SIMT_INLINE thread_block_tile(const thread_block_tile<N, Other>& other) : simt_tile_place<N, Parent>(other) {}
  static_assert((N & (N - 1)) == 0, "the number of threads of a tile is a power of two");
  SIMT_INLINE unsigned simt_first() const { return simt_lane() & ~(N - 1); }
  SIMT_INLINE unsigned simt_mask() const { return N == 32 ? 0xffffffffu : ((1u << (N & 31)) - 1) << simt_first(); }
  SIMT_INLINE void sync() const { simt_collective("tile.sync", simt_mask(), nullptr, nullptr); }
  SIMT_INLINE unsigned thread_rank() const { return simt_lane() % N; }
  static constexpr unsigned num_threads() { return N; }
  static constexpr unsigned size() { return N; }
  template <class T>
  SIMT_INLINE T shfl(T v, int source) const {
    return simt::group_shuffled("__shfl_sync", simt_mask(), v, (int)source, N, 0);
  }
  template <class T>
  SIMT_INLINE T shfl_up(T v, unsigned delta) const {
    return simt::group_shuffled("__shfl_up_sync", simt_mask(), v, (int)delta, N, 1);
  }
  template <class T>
  SIMT_INLINE T shfl_down(T v, unsigned delta) const {
    return simt::group_shuffled("__shfl_down_sync", simt_mask(), v, (int)delta, N, 2);
  }
  template <class T>
  SIMT_INLINE T shfl_xor(T v, int bits) const {
    return simt::group_shuffled("__shfl_xor_sync", simt_mask(), v, (int)bits, N, 3);
  }
  SIMT_INLINE unsigned ballot(int p) const { return __ballot_sync(simt_mask(), p) >> simt_first(); }
  SIMT_INLINE int any(int p) const { return __any_sync(simt_mask(), p); }
  SIMT_INLINE int all(int p) const { return __all_sync(simt_mask(), p); }
  template <class T>
  SIMT_INLINE unsigned match_any(T v) const {
    return __match_any_sync(simt_mask(), v) >> simt_first();
  }
  template <class T>
  SIMT_INLINE unsigned match_all(T v, int& all_equal) const {
    return __match_all_sync(simt_mask(), v, &all_equal) >> simt_first();
  }
};

// A tile of several warps: one of the barriers of the hardware for each, beyond the 16 that PTX can name.
template <unsigned N, class Parent>
struct thread_block_tile<N, Parent, true> : simt_tile_place<N, Parent> {
  thread_block_tile() = default;
  template <class Other>
  SIMT_INLINE thread_block_tile(const thread_block_tile<N, Other>& other) : simt_tile_place<N, Parent>(other) {}
  static_assert((N & (N - 1)) == 0 && N <= 1024, "a tile has at most 1024 threads, and a power of two of them");
  SIMT_INLINE void sync() const { simt_named_barrier(16 + 1024 / N - 1 + simt_rank() / N, N, 1); }
  SIMT_INLINE unsigned thread_rank() const { return simt_rank() % N; }
  static constexpr unsigned num_threads() { return N; }
  static constexpr unsigned size() { return N; }
};

template <unsigned N, class Parent>
SIMT_INLINE thread_block_tile<N, Parent> tiled_partition(const Parent&) {
  return {};
}
SIMT_INLINE thread_block_tile<1> this_thread() { return {}; }

struct coalesced_group {
  unsigned simt_lanes;
  unsigned simt_part = 0, simt_parts = 1;  // which of a partition's groups it is, and of how many
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
    return simt::group_shuffled("__shfl_sync", simt_lanes, v, simt_lane_of(rank % size()), 32, 0);
  }
  template <class T>
  SIMT_INLINE T shfl_down(T v, unsigned delta) const {
    unsigned rank = thread_rank() + delta;
    const int from = rank < size() ? simt_lane_of(rank) : (int)simt_lane();
    return simt::group_shuffled("__shfl_sync", simt_lanes, v, from, 32, 0);
  }
  template <class T>
  SIMT_INLINE T shfl_up(T v, unsigned delta) const {
    unsigned rank = thread_rank();
    const int from = rank >= delta ? simt_lane_of(rank - delta) : (int)simt_lane();
    return simt::group_shuffled("__shfl_sync", simt_lanes, v, from, 32, 0);
  }
  template <class T>
  SIMT_INLINE T shfl_xor(T v, unsigned bits) const {
    unsigned rank = thread_rank() ^ bits;
    const int from = rank < size() ? simt_lane_of(rank) : (int)simt_lane();
    return simt::group_shuffled("__shfl_sync", simt_lanes, v, from, 32, 0);
  }
  SIMT_INLINE unsigned meta_group_rank() const { return simt_part; }
  SIMT_INLINE unsigned meta_group_size() const { return simt_parts; }
  SIMT_INLINE int any(int p) const { return __any_sync(simt_lanes, p); }
  SIMT_INLINE int all(int p) const { return __all_sync(simt_lanes, p); }
  // Bit k is that of the thread of rank k.
  SIMT_INLINE unsigned simt_packed(unsigned lanes) const {
    unsigned packed = 0, m = simt_lanes;
    for (unsigned rank = 0; m; rank++, m &= m - 1) packed |= (lanes >> (__ffs((int)m) - 1) & 1u) << rank;
    return packed;
  }
  SIMT_INLINE unsigned ballot(int p) const { return simt_packed(__ballot_sync(simt_lanes, p)); }
  template <class T>
  SIMT_INLINE unsigned match_any(T v) const {
    return simt_packed(__match_any_sync(simt_lanes, v));
  }
};
SIMT_INLINE coalesced_group coalesced_threads() { return {simt_active_mask()}; }

// Threads of a tile or a coalesced group with the same label, or the same answer.
template <class Group, class T>
SIMT_INLINE coalesced_group labeled_partition(const Group& g, T label) {
  const unsigned same = __match_any_sync(g.simt_mask(), label);
  const unsigned first = __ballot_sync(g.simt_mask(), __ffs((int)same) - 1 == (int)simt_lane());  // of each group
  return {same, (unsigned)__popc(first & ((same & -same) - 1)), (unsigned)__popc(first)};
}
template <class Group>
SIMT_INLINE coalesced_group binary_partition(const Group& g, bool answer) {
  const unsigned yes = __ballot_sync(g.simt_mask(), answer), no = g.simt_mask() & ~yes;
  return {answer ? yes : no, answer ? 0u : 1u, 2};
}
// Of the threads of a group in the order of their ranks, `size` at a time.
SIMT_INLINE coalesced_group simt_pieces(unsigned lanes, unsigned rank, unsigned size) {
  unsigned mine = 0, m = lanes;
  for (unsigned r = 0; m; r++, m &= m - 1)
    if (r / size == rank / size) mine |= m & -m;
  return {mine, rank / size, ((unsigned)__popc(lanes) + size - 1) / size};
}
template <unsigned N>
SIMT_INLINE coalesced_group tiled_partition(const coalesced_group& g) {
  return simt_pieces(g.simt_lanes, g.thread_rank(), N);
}

// Any group, of a kind that is known as the kernel runs. Without lanes it is the block.
struct thread_group {
  unsigned simt_lanes;
  SIMT_INLINE thread_group(const thread_block&) : simt_lanes(0) {}
  SIMT_INLINE thread_group(const coalesced_group& g) : simt_lanes(g.simt_lanes) {}
  template <unsigned N, class Parent>
  SIMT_INLINE thread_group(const thread_block_tile<N, Parent, false>& g) : simt_lanes(g.simt_mask()) {}
  SIMT_INLINE void sync(SIMT_LINE) const {
    if (simt_lanes)
      coalesced_group{simt_lanes}.sync();
    else
      thread_block().sync(line);
  }
  SIMT_INLINE unsigned num_threads() const {
    return simt_lanes ? coalesced_group{simt_lanes}.size() : thread_block().size();
  }
  SIMT_INLINE unsigned size() const { return num_threads(); }
  SIMT_INLINE unsigned thread_rank() const {
    return simt_lanes ? coalesced_group{simt_lanes}.thread_rank() : thread_block().thread_rank();
  }
};
SIMT_INLINE thread_group tiled_partition(const thread_group& g, unsigned size) {
  const unsigned lanes = g.simt_lanes ? g.simt_lanes : simt_vote("tiled_partition", simt_active_mask(), 1, 0);
  return simt_pieces(lanes, g.simt_lanes ? g.thread_rank() : simt_lane(), size);
}

// One thread of a group calls a function; the others wait for its result, or for nothing.
template <class Group, class F, class... A>
SIMT_INLINE void invoke_one(const Group& g, F&& f, A&&... a) {
  if (g.thread_rank() == 0) f(static_cast<A&&>(a)...);
}
template <class Group, class F, class... A>
SIMT_INLINE auto invoke_one_broadcast(const Group& g, F&& f, A&&... a) {
  decltype(f(static_cast<A&&>(a)...)) result{};
  if (g.thread_rank() == 0) result = f(static_cast<A&&>(a)...);
  return g.shfl(result, 0);
}

SIMT_INLINE void sync(const thread_block& g, SIMT_LINE) { g.sync(line); }
SIMT_INLINE void sync(const grid_group& g, SIMT_LINE) { g.sync(line); }
SIMT_INLINE void sync(const thread_group& g, SIMT_LINE) { g.sync(line); }
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
SIMT_INLINE T reduce(const thread_block_tile<N, Parent, false>& g, T value, Op op) {
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
template <unsigned N, class Parent, class T, class Op>
SIMT_INLINE T reduce(const thread_block_tile<N, Parent, true>& g, T value, Op op) {
  static_assert(sizeof(T) <= 64, "tiles of more than a warp reduce values of at most 64 bytes");
  __shared__ char of_warps[32][64];
  const unsigned warp = simt_rank() / 32, first = simt_rank() / N * (N / 32);
  T total = reduce(thread_block_tile<32>(), value, op);
  if (simt_lane() == 0) *(T*)of_warps[warp] = total;
  g.sync();
  total = *(const T*)of_warps[first];
  for (unsigned i = 1; i < N / 32; i++) total = op(total, *(const T*)of_warps[first + i]);
  g.sync();
  return total;
}
template <class Group, class T>
SIMT_INLINE T inclusive_scan(const Group& g, T value) {
  return inclusive_scan(g, value, plus<T>());
}
// The first thread gets what a value-initialized T is.
template <class Group, class T, class Op>
SIMT_INLINE T exclusive_scan(const Group& g, T value, Op op) {
  T before = g.shfl_up(inclusive_scan(g, value, op), 1);
  return g.thread_rank() == 0 ? T{} : before;
}
template <class Group, class T>
SIMT_INLINE T exclusive_scan(const Group& g, T value) {
  return exclusive_scan(g, value, plus<T>());
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
// As many elements as both sides have.
template <class Group, class To, class From, class ToCount, class FromCount>
SIMT_INLINE void memcpy_async(const Group& g, To* to, const ToCount& room, const From* from, const FromCount& count) {
  memcpy_async(g, (From*)to, from, ((size_t)room < (size_t)count ? (size_t)room : (size_t)count) * sizeof(From));
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
template <unsigned Prior, class Group>
SIMT_INLINE void wait_prior(const Group& g) {
  simt::wait_copies(Prior);
  g.sync();
}

}  // namespace cooperative_groups
