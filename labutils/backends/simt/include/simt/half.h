// The two 16-bit floating-point types, by one macro: arithmetic is done in float and rounded, as CUDA's is
// for a GPU without it, with the same results.
#pragma once
#include "simt.h"

namespace simt {

SIMT_INLINE float half_to_float(unsigned short h) {
  unsigned sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 31, fraction = h & 1023;
  if (!exponent) {  // subnormal: multiples of 2^-24
    float f = (float)fraction * 5.9604644775390625e-8f;
    return sign ? -f : f;
  }
  if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | fraction << 13);
  return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
}

SIMT_INLINE unsigned short float_to_half(float f) {
  unsigned bits = __float_as_uint(f), sign = (bits >> 16) & 0x8000u, size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return 0x7fff;
  if (size >= 0x477ff000u) return (unsigned short)(sign | 0x7c00u);  // rounds beyond 65504
  if (size < 0x38800000u)
    return (unsigned short)(sign | (unsigned)__builtin_rintf(__builtin_fabsf(f) * 16777216.0f));
  return (unsigned short)(sign | (size + 0xfffu + ((size >> 13) & 1) - 0x38000000u) >> 13);
}

SIMT_INLINE float bfloat16_to_float(unsigned short h) { return __uint_as_float((unsigned)h << 16); }

SIMT_INLINE unsigned short float_to_bfloat16(float f) {
  unsigned bits = __float_as_uint(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return (unsigned short)((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

// a * b + c of halves as a float that rounds to the right half: where it is not exact, its last bit is set, so that the
// second rounding still sees on which side of the middle the sum lies.
SIMT_INLINE float fused_for_half(float a, float b, float c) {
  const double product = (double)a * b, sum = product + c;  // a product of halves is exact
  const double back = sum - product, lost = (product - (sum - back)) + (c - back);
  const float rounded = (float)sum;
  const double rest = (sum - rounded) + lost;
  const unsigned bits = __float_as_uint(rounded);
  if (!(rest != 0) || rest - rest != 0 || bits & 1) return rounded;
  return __uint_as_float((rest > 0) == (bits >> 31 == 0) ? bits + 1 : bits - 1);
}

}  // namespace simt

#ifdef SIMT_CHECKED
#define SIMT_COPY_PAIR(pair)                       \
  SIMT_INLINE pair(const pair& other) {            \
    simt_bits4 whole = *(const simt_bits4*)&other; \
    simt_keep(whole);                              \
    *(simt_bits4*)this = whole;                    \
  }                                                \
  SIMT_INLINE pair& operator=(const pair& other) { \
    simt_bits4 whole = *(const simt_bits4*)&other; \
    simt_keep(whole);                              \
    *(simt_bits4*)this = whole;                    \
    return *this;                                  \
  }
#else
#define SIMT_COPY_PAIR(pair)
#endif

#define SIMT_HALF_OPERATOR(name, pair, op)                                              \
  SIMT_INLINE name operator op(name a, name b) { return name((float)a op(float) b); }   \
  SIMT_INLINE name& operator op## = (name & a, name b) { return a = a op b; }           \
  SIMT_INLINE pair operator op(pair a, pair b) { return pair(a.x op b.x, a.y op b.y); } \
  SIMT_INLINE pair& operator op## = (pair & a, pair b) { return a = a op b; }
#define SIMT_HALF_COMPARE(name, op, function)                                   \
  SIMT_INLINE bool operator op(name a, name b) { return (float)a op(float) b; } \
  SIMT_INLINE bool function(name a, name b) { return (float)a op(float) b; }
#define SIMT_HALF_FUNCTION(name, pair, function, f)                  \
  SIMT_INLINE name h##function(name a) { return name(f((float)a)); } \
  SIMT_INLINE pair h2##function(pair a) { return pair(name(f((float)a.x)), name(f((float)a.y))); }

#define SIMT_HALF(name, pair, to_float, from_float)                                             \
  struct name##_raw {                                                                           \
    unsigned short x;                                                                           \
  };                                                                                            \
  struct pair##_raw {                                                                           \
    unsigned short x, y;                                                                        \
  };                                                                                            \
  struct name {                                                                                 \
    unsigned short __x;                                                                         \
    name() = default;                                                                           \
    SIMT_INLINE name(float f) : __x(simt::from_float(f)) {}                                     \
    SIMT_INLINE name(double f) : __x(simt::from_float((float)f)) {}                             \
    SIMT_INLINE name(int i) : __x(simt::from_float((float)i)) {}                                \
    SIMT_INLINE name(unsigned i) : __x(simt::from_float((float)i)) {}                           \
    SIMT_INLINE name(name##_raw bits) : __x(bits.x) {}                                          \
    SIMT_INLINE operator float() const { return simt::to_float(__x); }                          \
    SIMT_INLINE operator name##_raw() const { return {__x}; }                                   \
  };                                                                                            \
  struct __attribute__((aligned(4))) pair {                                                     \
    name x, y;                                                                                  \
    pair() = default;                                                                           \
    SIMT_INLINE pair(name a, name b) : x(a), y(b) {}                                            \
    SIMT_INLINE pair(pair##_raw bits) : x(name##_raw{bits.x}), y(name##_raw{bits.y}) {}         \
    SIMT_INLINE operator pair##_raw() const { return {x.__x, y.__x}; }                          \
    SIMT_COPY_PAIR(pair)                                                                        \
  };                                                                                            \
  SIMT_COPIED_WHOLE(pair)                                                                       \
  SIMT_HALF_OPERATOR(name, pair, +)                                                             \
  SIMT_HALF_OPERATOR(name, pair, -)                                                             \
  SIMT_HALF_OPERATOR(name, pair, *)                                                             \
  SIMT_HALF_OPERATOR(name, pair, /)                                                             \
  SIMT_INLINE name operator-(name a) { return name(-(float)a); }                                \
  SIMT_HALF_COMPARE(name, <, __hlt)                                                             \
  SIMT_HALF_COMPARE(name, >, __hgt)                                                             \
  SIMT_HALF_COMPARE(name, <=, __hle)                                                            \
  SIMT_HALF_COMPARE(name, >=, __hge)                                                            \
  SIMT_HALF_COMPARE(name, ==, __heq)                                                            \
  SIMT_HALF_COMPARE(name, !=, __hne)                                                            \
  SIMT_INLINE name __hadd(name a, name b) { return a + b; }                                     \
  SIMT_INLINE name __hsub(name a, name b) { return a - b; }                                     \
  SIMT_INLINE name __hmul(name a, name b) { return a * b; }                                     \
  SIMT_INLINE name __hdiv(name a, name b) { return a / b; }                                     \
  SIMT_INLINE name __hneg(name a) { return -a; }                                                \
  SIMT_INLINE name __habs(name a) { return name(fabsf((float)a)); }                             \
  SIMT_INLINE name __hmax(name a, name b) { return name(fmaxf((float)a, (float)b)); }           \
  SIMT_INLINE name __hmin(name a, name b) { return name(fminf((float)a, (float)b)); }           \
  SIMT_INLINE bool __hisnan(name a) { return isnan((float)a); }                                 \
  SIMT_INLINE name __hfma(name a, name b, name c) {                                             \
    return name(simt::fused_for_half((float)a, (float)b, (float)c));                            \
  }                                                                                             \
  SIMT_INLINE pair __hadd2(pair a, pair b) { return a + b; }                                    \
  SIMT_INLINE pair __hsub2(pair a, pair b) { return a - b; }                                    \
  SIMT_INLINE pair __hmul2(pair a, pair b) { return a * b; }                                    \
  SIMT_INLINE pair __h2div(pair a, pair b) { return a / b; }                                    \
  SIMT_INLINE pair __hmax2(pair a, pair b) { return pair(__hmax(a.x, b.x), __hmax(a.y, b.y)); } \
  SIMT_INLINE pair __hmin2(pair a, pair b) { return pair(__hmin(a.x, b.x), __hmin(a.y, b.y)); } \
  SIMT_INLINE pair __hfma2(pair a, pair b, pair c) {                                            \
    return pair(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));                                  \
  }                                                                                             \
  SIMT_HALF_FUNCTION(name, pair, exp, expf)                                                     \
  SIMT_HALF_FUNCTION(name, pair, exp2, exp2f)                                                   \
  SIMT_HALF_FUNCTION(name, pair, log, logf)                                                     \
  SIMT_HALF_FUNCTION(name, pair, sqrt, sqrtf)                                                   \
  SIMT_HALF_FUNCTION(name, pair, rsqrt, rsqrtf)                                                 \
  SIMT_HALF_FUNCTION(name, pair, sin, sinf)                                                     \
  SIMT_HALF_FUNCTION(name, pair, cos, cosf)                                                     \
  SIMT_INLINE name hrcp(name a) { return name(1.0f / (float)a); }                               \
  SIMT_INLINE float __low2float(pair a) { return (float)a.x; }                                  \
  SIMT_INLINE float __high2float(pair a) { return (float)a.y; }

// Whole numbers of a half, in each of the four ways of rounding; `word` is how CUDA's names begin.
#define SIMT_HALF_TO_INT_BY(name, word, way)                                                                    \
  SIMT_INLINE int word##2int_##way(name h) { return __float2int_##way((float)h); }                               \
  SIMT_INLINE unsigned word##2uint_##way(name h) { return __float2uint_##way((float)h); }                        \
  SIMT_INLINE short word##2short_##way(name h) {                                                                 \
    const int i = __float2int_##way((float)h);                                                                   \
    return (short)(i < -32768 ? -32768 : i > 32767 ? 32767 : i);                                                 \
  }
#define SIMT_HALF_TO_INT(name, word)  \
  SIMT_HALF_TO_INT_BY(name, word, rn) \
  SIMT_HALF_TO_INT_BY(name, word, rz) \
  SIMT_HALF_TO_INT_BY(name, word, rd) \
  SIMT_HALF_TO_INT_BY(name, word, ru)
