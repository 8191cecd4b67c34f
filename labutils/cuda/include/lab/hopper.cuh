// Hopper's own instructions (compute capability 9.0a), each behind a function with a name.
//
// With NVIDIA's compiler every function below is one PTX instruction, or two. Without a GPU the emulator has a header of
// the same name, whose functions do the same step by step. "Shared memory" is the block's own unless it says otherwise.
#pragma once

#if !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error "lab/hopper.cuh needs a Hopper GPU (H100, H200): compile for sm_90a"
#endif

#include <cuda_fp16.h>

typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;  // as <cuda_pipeline.h> has it

#define LAB_DEVICE __device__ __forceinline__

// What a copy needs to know of a matrix: address, sizes, strides, the box that one copy moves, the swizzle. Made on the
// host by lab.tensor_map(), passed as `const __grid_constant__ CUtensorMap`, used by its address.
struct alignas(64) CUtensorMap {
    uint64_t opaque[16];
};

// The address of shared memory as instructions take it: 32 bits.
LAB_DEVICE uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

// --- mbarriers: 8 bytes of shared memory that count arrivals and bytes -----------------------------------------------
//
// A phase ends when `arrivals` threads have arrived and all expected bytes have come; then the next phase begins with
// the same number of arrivals. Phases have parity 0, 1, 0, 1, …

LAB_DEVICE void mbarrier_init(uint64_t *bar, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(arrivals) : "memory");
}

// After mbarrier_init, before a barrier of threads: the copy engine, and other blocks of the cluster, see it too.
LAB_DEVICE void mbarrier_fence() {
    asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;" ::: "memory");
}

// Arrive, and make this phase wait for `bytes` more bytes.
LAB_DEVICE void mbarrier_expect(uint64_t *bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes)
                 : "memory");
}

LAB_DEVICE void mbarrier_arrive(uint64_t *bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(bar)) : "memory");
}

// Arrive at the barrier at the same place in the shared memory of block `rank` of the cluster. It speaks for what the
// engines have read, not for plain stores: those would need a release for the whole cluster, which costs a memory fence.
LAB_DEVICE void mbarrier_arrive(uint64_t *bar, int rank) {
    asm volatile(
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;"
        "mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(shared_address(bar)),
        "r"(rank)
        : "memory");
}

// With -DSPIN_LIMIT=n a kernel that waits for n ns is stopped: for trying things out.
struct SpinWatch {
#ifdef SPIN_LIMIT
    uint64_t begin = now();
    LAB_DEVICE static uint64_t now() {
        uint64_t ns;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
        return ns;
    }
    LAB_DEVICE void look() {
        if (now() - begin > SPIN_LIMIT) __trap();
    }
#else
    LAB_DEVICE void look() {}
#endif
};

// Wait until the phase of this parity has ended. Returns at once if the current phase has the other parity, so waiting
// for parity 1 on a new barrier does not block.
LAB_DEVICE void mbarrier_wait(uint64_t *bar, int parity) {
    SpinWatch watch;
    uint32_t done = 0;
    while (!done) {
        asm volatile(
            "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(done)
            : "r"(shared_address(bar)), "r"(parity)
            : "memory");
        if (!done) watch.look();
    }
}

// --- TMA: one thread starts the copy of a whole box ------------------------------------------------------------------

LAB_DEVICE void tma_prefetch(const CUtensorMap *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Start copying the box at (row, column) to shared memory. The barrier counts the bytes as they arrive. Elements outside
// the matrix become zeros, which count too.
LAB_DEVICE void tma_load(void *to, const CUtensorMap *map, uint64_t *bar, int row, int column) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
            shared_address(to)),
        "l"(map), "r"(shared_address(bar)), "r"(column), "r"(row)
        : "memory");
}

// The same for data that is read once: the L2 replaces its lines first, and keeps what others have left there.
LAB_DEVICE void tma_load_once(void *to, const CUtensorMap *map, uint64_t *bar, int row, int column) {
    asm volatile(
        "{ .reg .b64 policy; createpolicy.fractional.L2::evict_first.b64 policy, 1.0;"
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
        " [%0], [%1, {%3, %4}], [%2], policy; }" ::"r"(shared_address(to)),
        "l"(map), "r"(shared_address(bar)), "r"(column), "r"(row)
        : "memory");
}

// As tma_load, to the same place in each block of the cluster whose bit is set in `blocks`, and to its barrier.
LAB_DEVICE void tma_load_multicast(void *to, const CUtensorMap *map, uint64_t *bar, int row, int column, int blocks) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(shared_address(to)),
        "l"(map), "r"(shared_address(bar)), "r"(column), "r"(row), "h"((unsigned short)blocks)
        : "memory");
}

// A box from shared memory to the matrix; what would lie outside is not written. Call tma_commit() after it.
LAB_DEVICE void tma_store(const CUtensorMap *map, const void *from, int row, int column) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
                 "r"(shared_address(from)), "r"(column), "r"(row)
                 : "memory");
}

LAB_DEVICE void tma_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Wait until at most N groups of this thread's stores, the latest, have still to read shared memory.
template <int N>
LAB_DEVICE void tma_wait() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

// What this thread wrote to shared memory by plain stores may be read by tma_store and wgmma. Before a barrier.
LAB_DEVICE void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// --- WGMMA: four warps multiply tiles that lie in shared memory ------------------------------------------------------

// A tile in shared memory as WGMMA reads it, rows of 128 bytes that tma_load swizzled. `tile` may be moved within the
// first 128 bytes, by 32 bytes for 16 halves. Along the rows (K-major, the usual): 8 rows after `stride` bytes.
// TRANSPOSED: rows run along n; 8 rows of k after `stride` bytes, 64 columns of n after `leading` bytes. With
// `swizzle` 64, rows have 64 bytes, and the next 32 columns of n come after `leading` bytes.
LAB_DEVICE uint64_t wgmma_tile(const void *tile, int stride = 1024, int leading = 16, int swizzle = 128) {
    uint64_t address = shared_address(tile), kind = swizzle == 64 ? 2 : 1;
    return (address & 0x3ffff) >> 4 | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32 | kind << 62;
}

// Before the first wgmma that uses registers which other instructions have written.
LAB_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

LAB_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Wait until at most N groups of this warp group, the latest, are still under way.
template <int N>
LAB_DEVICE void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// The same, and from here on the sums may be used: the compiler moves no reading of them before it.
template <int N, int COUNT>
LAB_DEVICE void wgmma_wait(float (&d)[COUNT]) {
    wgmma_wait<N>();
    #pragma unroll
    for (int i = 0; i < COUNT; i++) asm volatile("" : "+f"(d[i])::"memory");
}

// Start d += a · b (or d = a · b): a has 64 rows, b has n columns, both are 16 deep, d are fp32 accumulators. Thread t of
// the 128 has in d[4 * j + 2 * h + i] the element of row t / 32 * 16 + t % 32 / 4 + 8 * h, column 8 * j + t % 4 * 2 + i.
// TRANSPOSED: b is stored (k, n). A_TRANSPOSED: a is stored (k, m).
#define LAB_8(k) \
    "+f"(d[k]), "+f"(d[k + 1]), "+f"(d[k + 2]), "+f"(d[k + 3]), "+f"(d[k + 4]), "+f"(d[k + 5]), "+f"(d[k + 6]), "+f"(d[k + 7])
#define LAB_16(k) LAB_8(k), LAB_8(k + 8)
#define LAB_32(k) LAB_16(k), LAB_16(k + 16)

template <int TRANSPOSED = 0, int A_TRANSPOSED = 0>
LAB_DEVICE void wgmma(float (&d)[32], uint64_t a, uint64_t b, bool add = true) {  // n = 64
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %34, 0;"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
            "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
            "%32, %33, p, 1, 1, %36, %35; }"
        : LAB_32(0)
        : "l"(a), "l"(b), "r"((int)add), "n"(TRANSPOSED), "n"(A_TRANSPOSED));
}
template <int TRANSPOSED = 0, int A_TRANSPOSED = 0>
LAB_DEVICE void wgmma(float (&d)[40], uint64_t a, uint64_t b, bool add = true) {  // n = 80
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %42, 0;"
        "wgmma.mma_async.sync.aligned.m64n80k16.f32.f16.f16 {"
            "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
            "%32, %33, %34, %35, %36, %37, %38, %39}, "
            "%40, %41, p, 1, 1, %44, %43; }"
        : LAB_32(0), LAB_8(32)
        : "l"(a), "l"(b), "r"((int)add), "n"(TRANSPOSED), "n"(A_TRANSPOSED));
}
template <int TRANSPOSED = 0, int A_TRANSPOSED = 0>
LAB_DEVICE void wgmma(float (&d)[48], uint64_t a, uint64_t b, bool add = true) {  // n = 96
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %50, 0;"
        "wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 {"
            "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
            "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, "
            "%48, %49, p, 1, 1, %52, %51; }"
        : LAB_32(0), LAB_16(32)
        : "l"(a), "l"(b), "r"((int)add), "n"(TRANSPOSED), "n"(A_TRANSPOSED));
}
template <int TRANSPOSED = 0, int A_TRANSPOSED = 0>
LAB_DEVICE void wgmma(float (&d)[56], uint64_t a, uint64_t b, bool add = true) {  // n = 112
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %58, 0;"
        "wgmma.mma_async.sync.aligned.m64n112k16.f32.f16.f16 {"
            "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
            "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
            "%48, %49, %50, %51, %52, %53, %54, %55}, "
            "%56, %57, p, 1, 1, %60, %59; }"
        : LAB_32(0), LAB_16(32), LAB_8(48)
        : "l"(a), "l"(b), "r"((int)add), "n"(TRANSPOSED), "n"(A_TRANSPOSED));
}
template <int TRANSPOSED = 0, int A_TRANSPOSED = 0>
LAB_DEVICE void wgmma(float (&d)[64], uint64_t a, uint64_t b, bool add = true) {  // n = 128
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %66, 0;"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
            "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
            "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
            "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
            "%64, %65, p, 1, 1, %68, %67; }"
        : LAB_32(0), LAB_32(32)
        : "l"(a), "l"(b), "r"((int)add), "n"(TRANSPOSED), "n"(A_TRANSPOSED));
}
template <int TRANSPOSED = 0, int A_TRANSPOSED = 0>
LAB_DEVICE void wgmma(float (&d)[72], uint64_t a, uint64_t b, bool add = true) {  // n = 144
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %74, 0;"
        "wgmma.mma_async.sync.aligned.m64n144k16.f32.f16.f16 {"
            "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
            "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
            "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
            "%64, %65, %66, %67, %68, %69, %70, %71}, "
            "%72, %73, p, 1, 1, %76, %75; }"
        : LAB_32(0), LAB_32(32), LAB_8(64)
        : "l"(a), "l"(b), "r"((int)add), "n"(TRANSPOSED), "n"(A_TRANSPOSED));
}
template <int TRANSPOSED = 0, int A_TRANSPOSED = 0>
LAB_DEVICE void wgmma(float (&d)[80], uint64_t a, uint64_t b, bool add = true) {  // n = 160
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %82, 0;"
        "wgmma.mma_async.sync.aligned.m64n160k16.f32.f16.f16 {"
            "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
            "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
            "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
            "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79}, "
            "%80, %81, p, 1, 1, %84, %83; }"
        : LAB_32(0), LAB_32(32), LAB_16(64)
        : "l"(a), "l"(b), "r"((int)add), "n"(TRANSPOSED), "n"(A_TRANSPOSED));
}
template <int TRANSPOSED = 0, int A_TRANSPOSED = 0>
LAB_DEVICE void wgmma(float (&d)[88], uint64_t a, uint64_t b, bool add = true) {  // n = 176
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %90, 0;"
        "wgmma.mma_async.sync.aligned.m64n176k16.f32.f16.f16 {"
            "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
            "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
            "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
            "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
            "%80, %81, %82, %83, %84, %85, %86, %87}, "
            "%88, %89, p, 1, 1, %92, %91; }"
        : LAB_32(0), LAB_32(32), LAB_16(64), LAB_8(80)
        : "l"(a), "l"(b), "r"((int)add), "n"(TRANSPOSED), "n"(A_TRANSPOSED));
}
template <int TRANSPOSED = 0, int A_TRANSPOSED = 0>
LAB_DEVICE void wgmma(float (&d)[96], uint64_t a, uint64_t b, bool add = true) {  // n = 192
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %98, 0;"
        "wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 {"
            "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
            "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
            "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
            "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
            "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
            "%96, %97, p, 1, 1, %100, %99; }"
        : LAB_32(0), LAB_32(32), LAB_32(64)
        : "l"(a), "l"(b), "r"((int)add), "n"(TRANSPOSED), "n"(A_TRANSPOSED));
}
template <int TRANSPOSED = 0, int A_TRANSPOSED = 0>
LAB_DEVICE void wgmma(float (&d)[104], uint64_t a, uint64_t b, bool add = true) {  // n = 208
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %106, 0;"
        "wgmma.mma_async.sync.aligned.m64n208k16.f32.f16.f16 {"
            "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
            "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
            "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
            "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
            "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
            "%96, %97, %98, %99, %100, %101, %102, %103}, "
            "%104, %105, p, 1, 1, %108, %107; }"
        : LAB_32(0), LAB_32(32), LAB_32(64), LAB_8(96)
        : "l"(a), "l"(b), "r"((int)add), "n"(TRANSPOSED), "n"(A_TRANSPOSED));
}
template <int TRANSPOSED = 0, int A_TRANSPOSED = 0>
LAB_DEVICE void wgmma(float (&d)[112], uint64_t a, uint64_t b, bool add = true) {  // n = 224
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %114, 0;"
        "wgmma.mma_async.sync.aligned.m64n224k16.f32.f16.f16 {"
            "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
            "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
            "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
            "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
            "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
            "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111}, "
            "%112, %113, p, 1, 1, %116, %115; }"
        : LAB_32(0), LAB_32(32), LAB_32(64), LAB_16(96)
        : "l"(a), "l"(b), "r"((int)add), "n"(TRANSPOSED), "n"(A_TRANSPOSED));
}
template <int TRANSPOSED = 0, int A_TRANSPOSED = 0>
LAB_DEVICE void wgmma(float (&d)[120], uint64_t a, uint64_t b, bool add = true) {  // n = 240
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %122, 0;"
        "wgmma.mma_async.sync.aligned.m64n240k16.f32.f16.f16 {"
            "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
            "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
            "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
            "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
            "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
            "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
            "%112, %113, %114, %115, %116, %117, %118, %119}, "
            "%120, %121, p, 1, 1, %124, %123; }"
        : LAB_32(0), LAB_32(32), LAB_32(64), LAB_16(96), LAB_8(112)
        : "l"(a), "l"(b), "r"((int)add), "n"(TRANSPOSED), "n"(A_TRANSPOSED));
}
template <int TRANSPOSED = 0, int A_TRANSPOSED = 0>
LAB_DEVICE void wgmma(float (&d)[128], uint64_t a, uint64_t b, bool add = true) {  // n = 256
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %130, 0;"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
            "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
            "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
            "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
            "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
            "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
            "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
            "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
            "%128, %129, p, 1, 1, %132, %131; }"
        : LAB_32(0), LAB_32(32), LAB_32(64), LAB_32(96)
        : "l"(a), "l"(b), "r"((int)add), "n"(TRANSPOSED), "n"(A_TRANSPOSED));
}
#undef LAB_8
#undef LAB_16
#undef LAB_32

// --- groups of warps and clusters of blocks ---------------------------------------------------------------------------

// A barrier of 128 threads, one of 15 that a block has beside __syncthreads: `number` is 1 to 15.
LAB_DEVICE void group_sync(int number) { asm volatile("bar.sync %0, 128;" ::"r"(number) : "memory"); }

// The four warps of a group give back registers, or wait for some: from here on each thread has N, a multiple of 8 from 24
// to 256. A kernel's warps start with equally many.
template <int N>
LAB_DEVICE void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N>
LAB_DEVICE void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }

// Which block of its cluster this is.
LAB_DEVICE int cluster_rank() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

LAB_DEVICE void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
}

// cluster_sync() in two halves: a thread can start loads between them and wait later. The first half waits for no stores
// or loads in flight, and announces only initialized mbarriers (call mbarrier_fence() before it).
LAB_DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
LAB_DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

// Start to write v to the address of `to` in the shared memory of block `rank` of the cluster. The barrier at the address
// of `bar` there counts the 8 bytes when they arrive: a thread that waits for that phase may read them. That block must
// have initialized the barrier before: put a cluster_sync() between.
LAB_DEVICE void store_async(float2 *to, float2 v, uint64_t *bar, int rank) {
    asm volatile(
        "{ .reg .b32 there, bar; mapa.shared::cluster.u32 there, %0, %4; mapa.shared::cluster.u32 bar, %3, %4;"
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [there], {%1, %2}, [bar]; }" ::"r"(
            shared_address(to)),
        "f"(v.x), "f"(v.y), "r"(shared_address(bar)), "r"(rank)
        : "memory");
}

// Four 8 x 8 pieces of halves, as wgmma leaves them (two halves in each register), to shared memory: lane i gives the
// address of row i % 8 of piece i / 8. With TRANSPOSED, each piece is stored transposed.
template <int TRANSPOSED = 0>
LAB_DEVICE void store_pieces(void *row, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3) {
    if (TRANSPOSED)
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
                     "r"(r0), "r"(r1), "r"(r2), "r"(r3)
                     : "memory");
    else
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
                     "r"(r0), "r"(r1), "r"(r2), "r"(r3)
                     : "memory");
}

// Two floats as two halves in 32 bits.
LAB_DEVICE uint32_t two_halves(float a, float b) {
    half2 both = __floats2half2_rn(a, b);
    return *reinterpret_cast<uint32_t *>(&both);
}
