// Device mathematics: libm's functions, CUDA's overloads and intrinsics.
#pragma once
#include "simt/runtime_api.h"

extern "C" {
#define SIMT_MATH_1(name)       \
  double name(double) noexcept; \
  float name##f(float) noexcept;
#define SIMT_MATH_2(name)               \
  double name(double, double) noexcept; \
  float name##f(float, float) noexcept;
SIMT_MATH_1(exp)
SIMT_MATH_1(exp2)
SIMT_MATH_1(exp10)
SIMT_MATH_1(expm1)
SIMT_MATH_1(log)
SIMT_MATH_1(log2)
SIMT_MATH_1(log10)
SIMT_MATH_1(log1p)
#ifndef SIMT_CHECKED
SIMT_MATH_1(sqrt)
#endif
SIMT_MATH_1(cbrt)
SIMT_MATH_1(sin)
SIMT_MATH_1(cos)
SIMT_MATH_1(tan)
SIMT_MATH_1(sinh)
SIMT_MATH_1(cosh)
SIMT_MATH_1(tanh)
SIMT_MATH_1(asin)
SIMT_MATH_1(acos)
SIMT_MATH_1(atan)
SIMT_MATH_1(asinh)
SIMT_MATH_1(acosh)
SIMT_MATH_1(atanh)
SIMT_MATH_1(erf)
SIMT_MATH_1(erfc)
SIMT_MATH_1(tgamma)
SIMT_MATH_1(lgamma)
SIMT_MATH_1(fabs)
SIMT_MATH_1(floor)
SIMT_MATH_1(ceil)
SIMT_MATH_1(trunc)
SIMT_MATH_1(round)
SIMT_MATH_1(rint)
SIMT_MATH_1(nearbyint)
SIMT_MATH_2(pow)
SIMT_MATH_2(fmod)
SIMT_MATH_2(atan2)
SIMT_MATH_2(fmax)
SIMT_MATH_2(fmin)
SIMT_MATH_2(copysign)
SIMT_MATH_2(hypot)
SIMT_MATH_2(fdim)
SIMT_MATH_2(remainder)
double fma(double, double, double) noexcept;
float fmaf(float, float, float) noexcept;
double ldexp(double, int) noexcept;
float ldexpf(float, int) noexcept;
int abs(int) noexcept;
#undef SIMT_MATH_1
#undef SIMT_MATH_2
}

#ifdef SIMT_CHECKED  // counted: neither accesses nor branches show that a value is computed and then not used
SIMT_INLINE float sqrtf(float x) {
  simt_square_root();
  return __builtin_sqrtf(x);
}
SIMT_INLINE double sqrt(double x) {
  simt_square_root();
  return __builtin_sqrt(x);
}
#endif

#define SIMT_OVERLOAD_1(name)                            \
  SIMT_INLINE float name(float x) { return name##f(x); } \
  SIMT_INLINE double name(int x) { return name((double)x); }
#define SIMT_OVERLOAD_2(name)                                               \
  SIMT_INLINE float name(float x, float y) { return name##f(x, y); }        \
  SIMT_INLINE double name(float x, double y) { return name((double)x, y); } \
  SIMT_INLINE double name(double x, float y) { return name(x, (double)y); } \
  SIMT_INLINE float name(float x, int y) { return name##f(x, (float)y); }   \
  SIMT_INLINE float name(int x, float y) { return name##f((float)x, y); }   \
  SIMT_INLINE double name(double x, int y) { return name(x, (double)y); }   \
  SIMT_INLINE double name(int x, double y) { return name((double)x, y); }
SIMT_OVERLOAD_1(exp)
SIMT_OVERLOAD_1(exp2)
SIMT_OVERLOAD_1(exp10)
SIMT_OVERLOAD_1(expm1)
SIMT_OVERLOAD_1(log)
SIMT_OVERLOAD_1(log2)
SIMT_OVERLOAD_1(log10)
SIMT_OVERLOAD_1(log1p)
SIMT_OVERLOAD_1(sqrt)
SIMT_OVERLOAD_1(cbrt)
SIMT_OVERLOAD_1(sin)
SIMT_OVERLOAD_1(cos)
SIMT_OVERLOAD_1(tan)
SIMT_OVERLOAD_1(sinh)
SIMT_OVERLOAD_1(cosh)
SIMT_OVERLOAD_1(tanh)
SIMT_OVERLOAD_1(asin)
SIMT_OVERLOAD_1(acos)
SIMT_OVERLOAD_1(atan)
SIMT_OVERLOAD_1(asinh)
SIMT_OVERLOAD_1(acosh)
SIMT_OVERLOAD_1(atanh)
SIMT_OVERLOAD_1(erf)
SIMT_OVERLOAD_1(erfc)
SIMT_OVERLOAD_1(tgamma)
SIMT_OVERLOAD_1(lgamma)
SIMT_OVERLOAD_1(fabs)
SIMT_OVERLOAD_1(floor)
SIMT_OVERLOAD_1(ceil)
SIMT_OVERLOAD_1(trunc)
SIMT_OVERLOAD_1(round)
SIMT_OVERLOAD_1(rint)
SIMT_OVERLOAD_1(nearbyint)
SIMT_OVERLOAD_2(pow)
SIMT_OVERLOAD_2(fmod)
SIMT_OVERLOAD_2(atan2)
SIMT_OVERLOAD_2(fmax)
SIMT_OVERLOAD_2(fmin)
SIMT_OVERLOAD_2(copysign)
SIMT_OVERLOAD_2(hypot)
SIMT_OVERLOAD_2(fdim)
SIMT_OVERLOAD_2(remainder)
#undef SIMT_OVERLOAD_1
#undef SIMT_OVERLOAD_2
SIMT_INLINE float fma(float a, float b, float c) { return fmaf(a, b, c); }
SIMT_INLINE float ldexp(float x, int e) { return ldexpf(x, e); }
SIMT_INLINE double frexp(double x, int* e) {
  *e = 0;
  if (x == 0 || !__builtin_isfinite(x)) return x;
  while (__builtin_fabs(x) >= 1) x *= 0.5, ++*e;
  while (__builtin_fabs(x) < 0.5) x *= 2, --*e;
  return x;
}
SIMT_INLINE float frexpf(float x, int* e) { return (float)frexp((double)x, e); }
SIMT_INLINE float frexp(float x, int* e) { return frexpf(x, e); }
SIMT_INLINE double modf(double x, double* whole) {
  *whole = trunc(x);
  return copysign(__builtin_isfinite(x) ? x - *whole : __builtin_isnan(x) ? x : 0, x);
}
SIMT_INLINE float modff(float x, float* whole) {
  *whole = truncf(x);
  return copysignf(__builtin_isfinite(x) ? x - *whole : __builtin_isnan(x) ? x : 0, x);
}
SIMT_INLINE float abs(float x) { return __builtin_fabsf(x); }
SIMT_INLINE double abs(double x) { return __builtin_fabs(x); }
SIMT_INLINE long abs(long x) { return x < 0 ? -x : x; }
SIMT_INLINE long long abs(long long x) { return x < 0 ? -x : x; }
SIMT_INLINE float rsqrtf(float x) { return 1.0f / sqrtf(x); }
SIMT_INLINE float rsqrt(float x) { return rsqrtf(x); }
SIMT_INLINE double rsqrt(double x) { return 1.0 / sqrt(x); }
SIMT_INLINE void sincosf(float x, float* s, float* c) { *s = sinf(x), *c = cosf(x); }
SIMT_INLINE bool isnan(float x) { return __builtin_isnan(x); }
SIMT_INLINE bool isinf(float x) { return __builtin_isinf(x); }
SIMT_INLINE bool isfinite(float x) { return __builtin_isfinite(x); }
SIMT_INLINE bool isnan(double x) { return __builtin_isnan(x); }
SIMT_INLINE bool isinf(double x) { return __builtin_isinf(x); }
SIMT_INLINE bool isfinite(double x) { return __builtin_isfinite(x); }

// Fast-math intrinsics: exact here, up to a few units in the last place off on a GPU.
SIMT_INLINE float __expf(float x) { return expf(x); }
SIMT_INLINE float __exp10f(float x) { return exp10f(x); }
SIMT_INLINE float __logf(float x) { return logf(x); }
SIMT_INLINE float __log2f(float x) { return log2f(x); }
SIMT_INLINE float __log10f(float x) { return log10f(x); }
SIMT_INLINE float __sinf(float x) { return sinf(x); }
SIMT_INLINE float __cosf(float x) { return cosf(x); }
SIMT_INLINE float __tanf(float x) { return tanf(x); }
SIMT_INLINE float __powf(float a, float b) { return powf(a, b); }
SIMT_INLINE float __fdividef(float a, float b) { return a / b; }
SIMT_INLINE float __fdiv_rn(float a, float b) { return a / b; }
SIMT_INLINE float __frcp_rn(float a) { return 1.0f / a; }
SIMT_INLINE float __fsqrt_rn(float a) { return sqrtf(a); }
SIMT_INLINE float __frsqrt_rn(float a) { return rsqrtf(a); }
SIMT_INLINE float __fadd_rn(float a, float b) { return a + b; }
SIMT_INLINE float __fsub_rn(float a, float b) { return a - b; }
SIMT_INLINE float __fmul_rn(float a, float b) { return a * b; }
SIMT_INLINE float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
SIMT_INLINE float __saturatef(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

#define SIMT_MIN_MAX(type)                                                 \
  SIMT_INLINE constexpr type min(type a, type b) { return b < a ? b : a; } \
  SIMT_INLINE constexpr type max(type a, type b) { return a < b ? b : a; }
SIMT_MIN_MAX(int)
SIMT_MIN_MAX(unsigned)
SIMT_MIN_MAX(long)
SIMT_MIN_MAX(unsigned long)
SIMT_MIN_MAX(long long)
SIMT_MIN_MAX(unsigned long long)
#undef SIMT_MIN_MAX
SIMT_INLINE unsigned umin(unsigned a, unsigned b) { return min(a, b); }
SIMT_INLINE unsigned umax(unsigned a, unsigned b) { return max(a, b); }
SIMT_INLINE long long llmin(long long a, long long b) { return min(a, b); }
SIMT_INLINE long long llmax(long long a, long long b) { return max(a, b); }
SIMT_INLINE unsigned long long ullmin(unsigned long long a, unsigned long long b) { return min(a, b); }
SIMT_INLINE unsigned long long ullmax(unsigned long long a, unsigned long long b) { return max(a, b); }
SIMT_INLINE unsigned min(unsigned a, int b) { return min(a, (unsigned)b); }
SIMT_INLINE unsigned min(int a, unsigned b) { return min((unsigned)a, b); }
SIMT_INLINE unsigned max(unsigned a, int b) { return max(a, (unsigned)b); }
SIMT_INLINE unsigned max(int a, unsigned b) { return max((unsigned)a, b); }
SIMT_INLINE float min(float a, float b) { return fminf(a, b); }
SIMT_INLINE float max(float a, float b) { return fmaxf(a, b); }
SIMT_INLINE double min(double a, double b) { return fmin(a, b); }
SIMT_INLINE double max(double a, double b) { return fmax(a, b); }
SIMT_INLINE double min(float a, double b) { return fmin(a, b); }
SIMT_INLINE double min(double a, float b) { return fmin(a, b); }
SIMT_INLINE double max(float a, double b) { return fmax(a, b); }
SIMT_INLINE double max(double a, float b) { return fmax(a, b); }

// Integers and bits
// Not the builtin: without a popcnt instruction it calls a library that kernels are not linked with.
SIMT_INLINE int __popc(unsigned x) {
  x -= x >> 1 & 0x55555555u;
  x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
  return (int)(((x + (x >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24);
}
SIMT_INLINE int __popcll(unsigned long long x) { return __popc((unsigned)x) + __popc((unsigned)(x >> 32)); }
SIMT_INLINE int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
SIMT_INLINE int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
SIMT_INLINE int __ffs(int x) { return __builtin_ffs(x); }
SIMT_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
SIMT_INLINE unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}
SIMT_INLINE int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
SIMT_INLINE unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffffu) * (b & 0xffffffu); }
SIMT_INLINE int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
SIMT_INLINE unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
SIMT_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned n) {
  return (unsigned)((((unsigned long long)high << 32 | low) << (n & 31)) >> 32);
}
SIMT_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned n) {
  return (unsigned)(((unsigned long long)high << 32 | low) >> (n & 31));
}
SIMT_INLINE int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; i++) c += (signed char)(a >> 8 * i) * (signed char)(b >> 8 * i);
  return c;
}

// Conversions
#define SIMT_BIT_CAST(name, from, to)             \
  SIMT_INLINE to name(from value) {               \
    to bits;                                      \
    __builtin_memcpy(&bits, &value, sizeof bits); \
    return bits;                                  \
  }
SIMT_BIT_CAST(__float_as_int, float, int)
SIMT_BIT_CAST(__int_as_float, int, float)
SIMT_BIT_CAST(__float_as_uint, float, unsigned)
SIMT_BIT_CAST(__uint_as_float, unsigned, float)
SIMT_BIT_CAST(__double_as_longlong, double, long long)
SIMT_BIT_CAST(__longlong_as_double, long long, double)
#undef SIMT_BIT_CAST
SIMT_INLINE int __float2int_rn(float x) { return (int)__builtin_rintf(x); }
SIMT_INLINE int __float2int_rd(float x) { return (int)floorf(x); }
SIMT_INLINE int __float2int_ru(float x) { return (int)ceilf(x); }
SIMT_INLINE int __float2int_rz(float x) { return (int)x; }
SIMT_INLINE unsigned __float2uint_rn(float x) { return (unsigned)__builtin_rintf(x); }
SIMT_INLINE unsigned __float2uint_rd(float x) { return (unsigned)floorf(x); }
SIMT_INLINE unsigned __float2uint_ru(float x) { return (unsigned)ceilf(x); }
SIMT_INLINE unsigned __float2uint_rz(float x) { return (unsigned)x; }
SIMT_INLINE float __int2float_rn(int x) { return (float)x; }
SIMT_INLINE float __uint2float_rn(unsigned x) { return (float)x; }
SIMT_INLINE float __double2float_rn(double x) { return (float)x; }
