// Loads and stores with cache hints, which are plain accesses here, as the emulator has no caches; asynchronous copies.
// Of a load by __ldg it is known that it was one: what it reads, no thread of the launch may write.
#pragma once
#include "simt/sync.h"

#define SIMT_LOAD(name)            \
  template <class T>               \
  SIMT_INLINE T name(const T* p) { \
    return *p;                     \
  }
#define SIMT_STORE(name)                 \
  template <class T>                     \
  SIMT_INLINE void name(T* p, T value) { \
    *p = value;                          \
  }
template <class T>
SIMT_INLINE T __ldg(const T* p) {
#ifdef SIMT_CHECKED
  simt_read_only(1);
  T value = *p;
  simt_read_only(0);
  return value;
#else
  return *p;
#endif
}
SIMT_LOAD(__ldca)
SIMT_LOAD(__ldcg)
SIMT_LOAD(__ldcs)
SIMT_LOAD(__ldlu)
SIMT_LOAD(__ldcv)
SIMT_STORE(__stwb)
SIMT_STORE(__stcg)
SIMT_STORE(__stcs)
SIMT_STORE(__stwt)
#undef SIMT_LOAD
#undef SIMT_STORE

// Addresses in shared memory are numbers of 32 bits; in global memory they are pointers.
SIMT_INLINE size_t __cvta_generic_to_shared(const void* p) { return simt_shared_address(p); }
SIMT_INLINE void* __cvta_shared_to_generic(size_t address) { return simt_shared_pointer((unsigned)address); }
SIMT_INLINE size_t __cvta_generic_to_global(const void* p) { return (size_t)p; }
SIMT_INLINE void* __cvta_global_to_generic(size_t address) { return (void*)address; }

extern "C" {
void simt_copying(const void* to);
void simt_delay(void* to, size_t bytes);
void simt_delayed(size_t bytes, const void* barrier);
void simt_copies_commit();
void simt_copies_wait(size_t groups);
void simt_copies_arrive(const void* barrier);
}

namespace simt {
// A store that arrives at its thread's wait (runtime/copies.cpp). Fast builds store at once, and their waits are empty.
template <class T>
SIMT_INLINE void store_later(T* to, const T& value, const void* barrier) {
#ifdef SIMT_CHECKED
  if constexpr (sizeof(T) <= 16) {
    simt_delay(to, sizeof(T));
    *to = value;
    simt_delayed(sizeof(T), barrier);
    return;
  }
#endif
  *to = value;
}
SIMT_INLINE void commit_copies() {
#ifdef SIMT_CHECKED
  simt_copies_commit();
#endif
}
SIMT_INLINE void wait_copies(size_t groups) {
#ifdef SIMT_CHECKED
  simt_copies_wait(groups);
#endif
}
SIMT_INLINE void arrive_copies(const void* barrier) {
#ifdef SIMT_CHECKED
  simt_copies_arrive(barrier);
#endif
}

// `bytes` to shared memory, the last `zeros` of them 0 in place of what lies there: as cp.async does it, a store for all
// lanes, whether they copy or not. It counts as a copy, since no thread stores anything.
SIMT_INLINE void copy_async(void* to, const void* from, size_t bytes, size_t zeros) {
  simt_copying(to);
  char* t = (char*)to;
  const char* f = (const char*)from;
#define SIMT_COPY(type)                                                                    \
  for (; bytes >= sizeof(type) && (bytes >= sizeof(type) + zeros || bytes <= zeros) &&     \
         !(((size_t)t | (bytes > zeros ? (size_t)f : 0)) & (sizeof(type) - 1));            \
       bytes -= sizeof(type), t += sizeof(type), f += sizeof(type)) {                      \
    type value{};                                                                          \
    if (bytes > zeros) value = *(const type*)f;                                            \
    store_later((type*)t, value, nullptr);                                                 \
  }
  SIMT_COPY(simt_bits16)
  SIMT_COPY(simt_bits8)
  SIMT_COPY(simt_bits4)
  SIMT_COPY(char)
#undef SIMT_COPY
  simt_copying(nullptr);
}
// cp.async itself: 4, 8 or 16 bytes, aligned on both sides.
SIMT_INLINE void copy_async_whole(void* to, const void* from, size_t bytes, size_t zeros) {
  simt_copy_check(to, bytes > zeros ? from : to, bytes);
  copy_async(to, from, bytes, zeros);
}
}  // namespace simt
