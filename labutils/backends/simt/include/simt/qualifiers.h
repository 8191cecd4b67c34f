// CUDA's keywords and basic types, as macros of the host compiler.
#pragma once

#define __SIMT_CPU__ 1
#define __CUDACC__ 1
#define __CUDA_ARCH__ 800

typedef unsigned int uint;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned long ulong;
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;  // as in CUDA's library under NVRTC, whatever the host has
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned uint32_t;
typedef unsigned long long uint64_t;
typedef int64_t intptr_t;
typedef uint64_t uintptr_t;

#define SIMT_INLINE inline __attribute__((always_inline))

// Code of ours that must not appear in a learner's trace.
#if defined(__clang__)
#define SIMT_UNTRACED __attribute__((no_sanitize("thread", "coverage"), disable_sanitizer_instrumentation))
#elif __GNUC__ >= 12
#define SIMT_UNTRACED __attribute__((no_sanitize("thread"), no_sanitize_coverage))
#else
#define SIMT_UNTRACED __attribute__((no_sanitize("thread")))
#endif

// noinline: inlined into its untraced caller, a kernel would lose its trace.
#ifdef SIMT_FLAT  // no function calls another, except itself: see labutils/backends/simt/operands.py
#define __global__ __attribute__((noinline, used, flatten))
#define __device__ __attribute__((flatten))
#define __noinline__
#else
#define __global__ __attribute__((noinline, used))
#define __device__
#define __noinline__ __attribute__((noinline))
#endif
#define __host__
#define __managed__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __restrict __restrict__

// A block stays on one operating-system thread, so a thread-local variable is shared by exactly the block's
// threads. __constinit: without it g++ guards arrays of classes with a first-use check.
#if defined(__clang__)
#define __shared__ static thread_local __attribute__((aligned(16)))
#else
#define __shared__ static __constinit thread_local __attribute__((aligned(16)))
#endif

// What a kernel promises its compiler changes nothing here.
#ifndef __clang__
#define __builtin_assume(condition) ((void)0)
#endif
#define __builtin_assume_aligned(pointer, ...) ((void*)(pointer))

#ifndef INFINITY
#define INFINITY (__builtin_inff())
#endif
#ifndef NAN
#define NAN (__builtin_nanf(""))
#endif
#define HUGE_VALF (__builtin_inff())
#define CUDART_INF_F (__builtin_inff())
#define CUDART_NAN_F (__builtin_nanf(""))
#define CUDART_INF (__builtin_inf())
#define CUDART_PI_F 3.141592654f
#define CUDART_PI 3.1415926535897931
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_E 2.7182818284590452354
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define FLT_MAX __FLT_MAX__
#define FLT_MIN __FLT_MIN__
#define FLT_EPSILON __FLT_EPSILON__
#define DBL_MAX __DBL_MAX__
#define DBL_MIN __DBL_MIN__
#define DBL_EPSILON __DBL_EPSILON__
#define INT_MAX __INT_MAX__
#define INT_MIN (-__INT_MAX__ - 1)
#define UINT_MAX (__INT_MAX__ * 2u + 1u)
#define LLONG_MAX __LONG_LONG_MAX__
#define LLONG_MIN (-__LONG_LONG_MAX__ - 1)
#define ULLONG_MAX (__LONG_LONG_MAX__ * 2ull + 1ull)
#define NULL nullptr
