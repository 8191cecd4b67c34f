// The emulator's side of labutils/include/lab/hopper.cuh: the same functions, done by runtime/hopper_api.cpp.
#pragma once
#include "cuda_fp16.h"

struct CUtensorMap {
  uint64_t opaque[16];
};

extern "C" {
void simt_mbarrier_init(void* bar, int arrivals);
void simt_mbarrier_fence();
void simt_mbarrier_arrive(void* bar, int rank, int bytes);
void simt_mbarrier_wait(void* bar, int parity);
void simt_tma_load(void* to, const void* map, void* bar, int row, int column, int blocks);
void simt_tma_store(const void* map, const void* from, int row, int column);
void simt_tma_commit();
void simt_tma_wait(int groups);
void simt_fence_async();
void simt_wgmma(float* d, int n, uint64_t a, uint64_t b, int add, int transposed, int a_transposed);
void simt_wgmma_fence();
void simt_wgmma_commit();
void simt_wgmma_wait(int groups, int uses_sums);
void simt_group_sync(int number);
void simt_cluster_sync();
void simt_cluster_arrive();
void simt_cluster_wait();
void simt_store_async(void* to, uint64_t value, void* bar, int rank);
unsigned simt_shared_offset(const void* p);
unsigned simt_cluster_rank() __attribute__((const));
}

SIMT_INLINE uint32_t shared_address(const void* p) { return simt_shared_offset(p); }

SIMT_INLINE void mbarrier_init(uint64_t* bar, int arrivals) { simt_mbarrier_init(bar, arrivals); }
SIMT_INLINE void mbarrier_fence() { simt_mbarrier_fence(); }
SIMT_INLINE void mbarrier_expect(uint64_t* bar, int bytes) { simt_mbarrier_arrive(bar, -1, bytes); }
SIMT_INLINE void mbarrier_arrive(uint64_t* bar) { simt_mbarrier_arrive(bar, -1, 0); }
SIMT_INLINE void mbarrier_arrive(uint64_t* bar, int rank) { simt_mbarrier_arrive(bar, rank, 0); }
SIMT_INLINE void mbarrier_wait(uint64_t* bar, int parity) { simt_mbarrier_wait(bar, parity); }

SIMT_INLINE void tma_prefetch(const CUtensorMap*) {}
SIMT_INLINE void tma_load(void* to, const CUtensorMap* map, uint64_t* bar, int row, int column) {
  simt_tma_load(to, map, bar, row, column, 0);
}
SIMT_INLINE void tma_load_once(void* to, const CUtensorMap* map, uint64_t* bar, int row, int column) {
  simt_tma_load(to, map, bar, row, column, 0);
}
SIMT_INLINE void tma_load_multicast(void* to, const CUtensorMap* map, uint64_t* bar, int row, int column,
                                    int blocks) {
  simt_tma_load(to, map, bar, row, column, blocks);
}
SIMT_INLINE void tma_store(const CUtensorMap* map, const void* from, int row, int column) {
  simt_tma_store(map, from, row, column);
}
SIMT_INLINE void tma_commit() { simt_tma_commit(); }
template <int N>
SIMT_INLINE void tma_wait() {
  simt_tma_wait(N);
}
SIMT_INLINE void fence_async() { simt_fence_async(); }

SIMT_INLINE uint64_t wgmma_tile(const void* tile, int stride = 1024, int leading = 16, int swizzle = 128) {
  uint64_t address = shared_address(tile), kind = swizzle == 64 ? 2 : 1;
  return (address & 0x3ffff) >> 4 | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32 | kind << 62;
}
SIMT_INLINE void wgmma_fence() { simt_wgmma_fence(); }
SIMT_INLINE void wgmma_commit() { simt_wgmma_commit(); }
template <int N>
SIMT_INLINE void wgmma_wait() {
  simt_wgmma_wait(N, 0);
}
template <int N, int COUNT>
SIMT_INLINE void wgmma_wait(float (&)[COUNT]) {
  simt_wgmma_wait(N, 1);
}
template <int TRANSPOSED = 0, int A_TRANSPOSED = 0, int COUNT>
SIMT_INLINE void wgmma(float (&d)[COUNT], uint64_t a, uint64_t b, bool add = true) {
  constexpr bool known = COUNT >= 32 && COUNT <= 128 && COUNT % 8 == 0;
  static_assert(known, "wgmma: a multiple of 8 sums for each thread, from 32 to 128");
  simt_wgmma(d, 2 * COUNT, a, b, add, TRANSPOSED, A_TRANSPOSED);
}

SIMT_INLINE void group_sync(int number) { simt_group_sync(number); }
template <int N>
SIMT_INLINE void fewer_registers() {}
template <int N>
SIMT_INLINE void more_registers() {}
SIMT_INLINE int cluster_rank() { return (int)simt_cluster_rank(); }
SIMT_INLINE void cluster_sync() { simt_cluster_sync(); }
SIMT_INLINE void cluster_arrive() { simt_cluster_arrive(); }
SIMT_INLINE void cluster_wait() { simt_cluster_wait(); }
SIMT_INLINE void store_async(float2* to, float2 v, uint64_t* bar, int rank) {
  simt_store_async(to, (uint64_t)__float_as_uint(v.x) | (uint64_t)__float_as_uint(v.y) << 32, bar, rank);
}

// Lane i holds 4 bytes of row i / 4 of each piece, and knows the address of row i % 8 of piece i / 8.
template <int TRANSPOSED = 0>
SIMT_INLINE void store_pieces(void* row, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3) {
  uint32_t held[4] = {r0, r1, r2, r3};
  for (int piece = 0; piece < 4; piece++) {
    if (TRANSPOSED) {  // its two halves lie one below the other
      for (int half = 0; half < 2; half++) {
        char* to = (char*)__shfl_sync(0xffffffffu, (uint64_t)row, piece * 8 + simt_lane() % 4 * 2 + half);
        *(uint16_t*)(to + simt_lane() / 4 * 2) = (uint16_t)(held[piece] >> 16 * half);
      }
    } else {
      char* to = (char*)__shfl_sync(0xffffffffu, (uint64_t)row, piece * 8 + simt_lane() / 4);
      *(uint32_t*)(to + simt_lane() % 4 * 4) = held[piece];
    }
  }
}
SIMT_INLINE uint32_t two_halves(float a, float b) {
  return (uint32_t)__half_as_ushort(__float2half(a)) | (uint32_t)__half_as_ushort(__float2half(b)) << 16;
}
