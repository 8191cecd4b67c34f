// Loads and stores with cache hints, and asynchronous copies: both plain accesses here, as the emulator has
// no caches and no time.
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
SIMT_LOAD(__ldg)
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

extern "C" void simt_copying(int on);

namespace simt {
// One access for each `bytes`, as cp.async makes: it counts as a copy, since no thread stores anything.
SIMT_INLINE void copy_async(void* to, const void* from, size_t bytes, size_t zeros) {
  simt_copying(1);
  char* t = (char*)to;
  const char* f = (const char*)from;
  for (; bytes - zeros >= 16 && !(((size_t)t | (size_t)f) & 15); bytes -= 16, t += 16, f += 16)
    *(simt_bits16*)t = *(const simt_bits16*)f;
  for (; bytes - zeros >= 8 && !(((size_t)t | (size_t)f) & 7); bytes -= 8, t += 8, f += 8)
    *(simt_bits8*)t = *(const simt_bits8*)f;
  for (; bytes - zeros >= 4 && !(((size_t)t | (size_t)f) & 3); bytes -= 4, t += 4, f += 4)
    *(simt_bits4*)t = *(const simt_bits4*)f;
  for (; bytes > zeros; bytes--) *t++ = *f++;
  for (; bytes; bytes--) *t++ = 0;
  simt_copying(0);
}
}  // namespace simt
