// __pipeline_memcpy_async and its relatives: the copy is done at once, so there is nothing to wait for.
#pragma once
#include "simt.h"

SIMT_INLINE void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0) {
  simt::copy_async_whole(to, from, bytes, zeros);
}
SIMT_INLINE void __pipeline_commit() {}
SIMT_INLINE void __pipeline_wait_prior(size_t) {}
