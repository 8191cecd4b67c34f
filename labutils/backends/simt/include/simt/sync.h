// Barriers, fences, and the collectives of a warp.
#pragma once
#include "simt/math.h"

// A barrier is known by its source line: compilers clone calls, so that return addresses would tell one
// barrier from itself.
#define SIMT_LINE unsigned line = __builtin_LINE()

SIMT_INLINE void __syncthreads(SIMT_LINE) { simt_barrier("__syncthreads", line); }
SIMT_INLINE int __syncthreads_count(int p, SIMT_LINE) {
  return simt_barrier_vote("__syncthreads_count", 1, p, line);
}
SIMT_INLINE int __syncthreads_and(int p, SIMT_LINE) {
  return simt_barrier_vote("__syncthreads_and", 2, p, line);
}
SIMT_INLINE int __syncthreads_or(int p, SIMT_LINE) {
  return simt_barrier_vote("__syncthreads_or", 3, p, line);
}

SIMT_INLINE void __threadfence() { simt_fence(); }
SIMT_INLINE void __threadfence_system() { simt_fence(); }
SIMT_INLINE void __threadfence_block() { simt_fence_block(); }
SIMT_INLINE void __nanosleep(unsigned) { simt_yield(); }
SIMT_INLINE long long clock64() { return simt_clock(); }
typedef long clock_t;
SIMT_INLINE clock_t clock() { return (clock_t)(int)simt_clock(); }

SIMT_INLINE unsigned __activemask() { return simt_active_mask(); }
SIMT_INLINE void __syncwarp(unsigned mask = 0xffffffffu) {
  simt_collective("__syncwarp", mask, nullptr, nullptr);
}

namespace simt {
// A value of any size moves in words of 8 bytes, as cooperative groups do it.
template <class T>
SIMT_INLINE T shuffled(const char* what, unsigned mask, T value, int argument, int width, int mode) {
  unsigned long long words[(sizeof(T) + 7) / 8] = {};
  __builtin_memcpy(words, &value, sizeof(T));
  for (unsigned long long& word : words) simt_shuffle(what, mask, &word, argument, width, mode);
  __builtin_memcpy((void*)&value, words, sizeof(T));
  return value;
}
}  // namespace simt
#define SIMT_SHUFFLE(name, argument_type, mode)                                        \
  template <class T>                                                                   \
  SIMT_INLINE T name(unsigned mask, T value, argument_type argument, int width = 32) { \
    static_assert(sizeof(T) <= 8, #name " moves values of at most 8 bytes");           \
    return simt::shuffled(#name, mask, value, (int)argument, width, mode);             \
  }
SIMT_SHUFFLE(__shfl_sync, int, 0)
SIMT_SHUFFLE(__shfl_up_sync, unsigned, 1)
SIMT_SHUFFLE(__shfl_down_sync, unsigned, 2)
SIMT_SHUFFLE(__shfl_xor_sync, int, 3)
#undef SIMT_SHUFFLE

SIMT_INLINE unsigned __ballot_sync(unsigned mask, int p) {
  return (unsigned)simt_vote("__ballot_sync", mask, p != 0, 0);
}
SIMT_INLINE int __any_sync(unsigned mask, int p) { return (int)simt_vote("__any_sync", mask, p != 0, 1); }
SIMT_INLINE int __all_sync(unsigned mask, int p) { return (int)simt_vote("__all_sync", mask, p != 0, 2); }

template <class T>
SIMT_INLINE unsigned __match_any_sync(unsigned mask, T value) {
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return (unsigned)simt_vote("__match_any_sync", mask, bits, 3);
}
template <class T>
SIMT_INLINE unsigned __match_all_sync(unsigned mask, T value, int* all_equal) {
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  unsigned result = (unsigned)simt_vote("__match_all_sync", mask, bits, 12);
  *all_equal = result != 0;
  return result;
}

#define SIMT_REDUCE(name, type, mode)                           \
  SIMT_INLINE type name(unsigned mask, type value) {            \
    return (type)simt_vote(#name, mask, (unsigned)value, mode); \
  }
SIMT_REDUCE(__reduce_add_sync, unsigned, 4)
SIMT_REDUCE(__reduce_add_sync, int, 4)
SIMT_REDUCE(__reduce_max_sync, unsigned, 5)
SIMT_REDUCE(__reduce_max_sync, int, 10)
SIMT_REDUCE(__reduce_min_sync, unsigned, 6)
SIMT_REDUCE(__reduce_min_sync, int, 11)
SIMT_REDUCE(__reduce_and_sync, unsigned, 7)
SIMT_REDUCE(__reduce_or_sync, unsigned, 8)
SIMT_REDUCE(__reduce_xor_sync, unsigned, 9)
#undef SIMT_REDUCE
