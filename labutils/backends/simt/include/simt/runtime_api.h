// What the runtime offers to kernels (runtime/device_api.cpp, atomics.cpp).
#pragma once
#include "simt/vector_types.h"

// Called with one payload for each lane that takes part, on the stack of the lane that came last.
typedef void (*simt_combine)(void** payloads, unsigned mask, unsigned present);

extern "C" {
// const: a thread's indices never change, and a value has no address that could be recorded as an access.
uint3 simt_thread_index() __attribute__((const));
uint3 simt_block_index() __attribute__((const));
uint3 simt_block_size() __attribute__((const));
uint3 simt_grid_size() __attribute__((const));
void* simt_dynamic_shared() __attribute__((const));
void* simt_shared_pointer(unsigned address) __attribute__((const));
unsigned simt_shared_address(const void* p) __attribute__((const));
unsigned simt_lane() __attribute__((const));
unsigned simt_rank() __attribute__((const));

void simt_barrier(const char* what, unsigned line);
int simt_barrier_vote(const char* what, int kind, int predicate, unsigned line);
void simt_named_barrier(unsigned number, unsigned threads, int waits);
void simt_grid_barrier(unsigned line);
void simt_collective(const char* what, unsigned mask, void* payload, simt_combine combine);
void simt_shuffle(const char* what, unsigned mask, unsigned long long* value, int argument, int width,
                  int mode);
unsigned long long simt_vote(const char* what, unsigned mask, unsigned long long value, int mode);
unsigned simt_active_mask();
void simt_fence();
void simt_fence_block();
void simt_yield();
long long simt_clock();
void simt_assert(const char* what, unsigned line);
void simt_enter(void* frame, void* room);
void simt_callback(int begins);
void simt_read_only(int begins);
void simt_square_root();
void simt_copy_check(const void* to, const void* from, size_t bytes);
void simt_atomic(int op, int type, void* p, const void* value, const void* expected);
unsigned long long simt_atomic_result() __attribute__((pure));
void simt_matrix_multiply(const float* a, const float* b, float* c, int rows, int columns, int depth);
void* simt_memcpy(void* to, const void* from, size_t n);
void* simt_memmove(void* to, const void* from, size_t n);
void* simt_memset(void* to, int value, size_t n);
int simt_memcmp(const void* a, const void* b, size_t n);
int printf(const char* format, ...) __asm__("simt_printf") __attribute__((format(printf, 1, 2)));
}

#define threadIdx (simt_thread_index())
#define blockIdx (simt_block_index())
#define blockDim (simt_block_size())
#define gridDim (simt_grid_size())
static constexpr int warpSize = 32;

#define memcpy(to, from, n) simt_memcpy(to, from, n)
#define memmove(to, from, n) simt_memmove(to, from, n)
#define memset(to, value, n) simt_memset(to, value, n)
#define memcmp(a, b, n) simt_memcmp(a, b, n)
#define assert(condition) ((condition) ? (void)0 : simt_assert(#condition, __LINE__))
#define __trap() simt_assert("__trap()", __LINE__)
