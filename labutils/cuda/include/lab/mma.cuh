// The tensor cores' own instructions, from Ampere on: unlike wmma's fragments, these say which lane holds what.
//
// With NVIDIA's compiler every function is one PTX instruction (on sm_75, which has only half the depth, two). Without a
// GPU the emulator has a header of the same name. All 32 lanes of a warp call them together.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define LAB_MMA __device__ __forceinline__

template <class T>
constexpr bool lab_is_bf16 = false;
template <>
inline constexpr bool lab_is_bf16<__nv_bfloat16> = true;

// Start copying 16 bytes from memory to shared memory, or writing 16 zeros there if not `inside`: nothing is read then.
// Counts among the copies that __pipeline_commit() groups and __pipeline_wait_prior(n) waits for.
LAB_MMA void copy_async(void *to, const void *from, bool inside = true) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(inside ? 16 : 0)
                 : "memory");
#else
    *reinterpret_cast<uint4 *>(to) = inside ? *reinterpret_cast<const uint4 *>(from) : make_uint4(0, 0, 0, 0);
#endif
}

// Four 8 x 8 matrices of 16-bit numbers from shared memory. Lane 8 i + r gives the address of row r of matrix i: 16 bytes
// that lie together, at a multiple of 16. Lane 4 r + c gets elements 2 c and 2 c + 1 of row r of matrix i in m[i].
LAB_MMA void ldmatrix_x4(unsigned (&m)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
}

// The same of the transposed matrices: lane 4 r + c gets elements r of rows 2 c and 2 c + 1.
LAB_MMA void ldmatrix_x4_trans(unsigned (&m)[4], const void *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row))
                 : "memory");
}

// d += a b: a (16 x 16), b (16 x 8), d (16 x 8), products of T, sums of float. Lane 4 r + c holds
//   d[0], d[1]  row r,     columns 2 c, 2 c + 1      d[2], d[3]  row r + 8, the same columns
//   a[0]        row r,     columns 2 c, 2 c + 1      a[1]        row r + 8, the same columns
//   a[2], a[3]  as a[0] and a[1], 8 columns further
//   b0          rows 2 c, 2 c + 1, column r          b1          8 rows further
// with two numbers of T in each of a and b, the first in the low half.
template <class T = __half>
LAB_MMA void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#if __CUDA_ARCH__ >= 800
    if constexpr (lab_is_bf16<T>) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
#else
    if constexpr (lab_is_bf16<T>) {
        __trap();  // no bf16 before Ampere
    } else {
        asm volatile(
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(b0));
        asm volatile(
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[2]), "r"(a[3]), "r"(b1));
    }
#endif
}

// Two floats as T, the first in the low half.
template <class T = __half>
LAB_MMA unsigned pack(float low, float high) {
    if constexpr (lab_is_bf16<T>) {
        __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
        return *reinterpret_cast<unsigned *>(&both);
    } else {
        __half2 both = __floats2half2_rn(low, high);
        return *reinterpret_cast<unsigned *>(&both);
    }
}

// 2 to the x, to about 22 bits: what exp2f would be if it had no care for numbers below 2^-126.
LAB_MMA float fast_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
