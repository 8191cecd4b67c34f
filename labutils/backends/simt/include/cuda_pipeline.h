// __pipeline_memcpy_async and its relatives: a copy arrives at its thread's wait (runtime/copies.cpp).
#pragma once
#include "simt.h"

SIMT_INLINE void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0) {
  simt::copy_async_whole(to, from, bytes, zeros);
}
SIMT_INLINE void __pipeline_commit() { simt::commit_copies(); }
SIMT_INLINE void __pipeline_wait_prior(size_t groups) { simt::wait_copies(groups); }
