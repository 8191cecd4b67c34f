// Floating-point numbers of 8 bits, e4m3 and e5m2: storage, conversions and classes. Rounding is to nearest, ties to
// even, from double at once, so that no number is rounded twice.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
typedef enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE } __nv_saturation_t;
typedef enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 } __nv_fp8_interpretation_t;

namespace simt {

SIMT_INLINE float fp8_to_float(unsigned char code, __nv_fp8_interpretation_t kind) {
  if (kind == __NV_E5M2) return half_to_float((unsigned short)(code << 8));
  if ((code & 0x7f) == 0x7f) return __uint_as_float(0x7fffffffu);
  return half_to_float((unsigned short)((code & 0x80) << 8 | (code & 0x7f) << 7)) * 256.0f;  // bias 7 in place of 15
}

SIMT_INLINE unsigned char double_to_fp8(double x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
  const bool e4m3 = kind == __NV_E4M3;
  const int fraction = e4m3 ? 3 : 2, least = e4m3 ? -6 : -14, largest = e4m3 ? 0x7e : 0x7b;
  const unsigned long long bits = (unsigned long long)__double_as_longlong(x), size = bits & ~(1ull << 63);
  const unsigned char sign = (unsigned char)(bits >> 63 << 7);
  if (size > 0x7ff0000000000000ull) return sign | 0x7f;
  const int exponent = (int)(size >> 52) - 1023, above = exponent > least ? exponent - least : 0;
  const int shift = 52 - fraction + (exponent < least ? least - exponent : 0);
  if (shift > 54) return sign;
  const unsigned long long whole = (size & 0xfffffffffffffull) | 1ull << 52;
  const unsigned long long rest = whole & ((1ull << shift) - 1), half = 1ull << (shift - 1);
  unsigned long long units = whole >> shift;
  units += rest > half || (rest == half && units & 1);
  const unsigned long long code = ((unsigned long long)above << fraction) + units;
  if (code <= (unsigned long long)largest) return sign | (unsigned char)code;
  return sign | (unsigned char)(saturate == __NV_SATFINITE ? largest : e4m3 ? 0x7f : 0x7c);
}

}  // namespace simt

#define SIMT_FP8_FROM(name, type, value)                                                          \
  SIMT_INLINE __nv_fp8_storage_t __nv_cvt_##name##_to_fp8(type x, __nv_saturation_t saturate,     \
                                                          __nv_fp8_interpretation_t kind) {       \
    return simt::double_to_fp8((double)(value), saturate, kind);                                  \
  }
#define SIMT_FP8X2_FROM(name, type, first, second)                                                  \
  SIMT_INLINE __nv_fp8x2_storage_t __nv_cvt_##name##_to_fp8x2(type x, __nv_saturation_t saturate,   \
                                                              __nv_fp8_interpretation_t kind) {     \
    const unsigned low = simt::double_to_fp8((double)(first), saturate, kind);                      \
    const unsigned high = simt::double_to_fp8((double)(second), saturate, kind);                    \
    return (__nv_fp8x2_storage_t)(high << 8 | low);                                                 \
  }
SIMT_FP8_FROM(float, float, x)
SIMT_FP8_FROM(double, double, x)
SIMT_FP8_FROM(halfraw, __half_raw, (float)__half(x))
SIMT_FP8_FROM(bfloat16raw, __nv_bfloat16_raw, (float)__nv_bfloat16(x))
SIMT_FP8X2_FROM(float2, float2, x.x, x.y)
SIMT_FP8X2_FROM(double2, double2, x.x, x.y)
SIMT_FP8X2_FROM(halfraw2, __half2_raw, simt::half_to_float(x.x), simt::half_to_float(x.y))
SIMT_FP8X2_FROM(bfloat16raw2, __nv_bfloat162_raw, simt::bfloat16_to_float(x.x), simt::bfloat16_to_float(x.y))

SIMT_INLINE __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
  return {simt::float_to_half(simt::fp8_to_float(x, kind))};
}
SIMT_INLINE __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t kind) {
  return {__nv_cvt_fp8_to_halfraw((unsigned char)x, kind).x, __nv_cvt_fp8_to_halfraw((unsigned char)(x >> 8), kind).x};
}

#define SIMT_FP8(name, kind)                                                                                       \
  struct name {                                                                                                    \
    __nv_fp8_storage_t __x;                                                                                        \
    name() = default;                                                                                              \
    template <class T>                                                                                             \
    SIMT_INLINE explicit name(T x) : __x(simt::double_to_fp8(simt::fp8_source(x), __NV_SATFINITE, kind)) {}        \
    SIMT_INLINE explicit operator float() const { return simt::fp8_to_float(__x, kind); }                          \
    SIMT_INLINE explicit operator double() const { return (double)(float)*this; }                                  \
    SIMT_INLINE explicit operator __half() const { return __half((float)*this); }                                  \
    SIMT_INLINE explicit operator __nv_bfloat16() const { return __nv_bfloat16((float)*this); }                    \
    SIMT_INLINE explicit operator bool() const { return (__x & 0x7f) != 0; }                                       \
    SIMT_INLINE explicit operator int() const { return __float2int_rz((float)*this); }                             \
  };
#define SIMT_FP8X2(name, kind)                                                                                     \
  struct __attribute__((aligned(2))) name {                                                                        \
    __nv_fp8x2_storage_t __x;                                                                                      \
    name() = default;                                                                                              \
    SIMT_INLINE explicit name(float2 f) : __x(__nv_cvt_float2_to_fp8x2(f, __NV_SATFINITE, kind)) {}                \
    SIMT_INLINE explicit name(double2 f) : __x(__nv_cvt_double2_to_fp8x2(f, __NV_SATFINITE, kind)) {}              \
    SIMT_INLINE explicit name(__half2 f) : name(make_float2((float)f.x, (float)f.y)) {}                            \
    SIMT_INLINE explicit name(__nv_bfloat162 f) : name(make_float2((float)f.x, (float)f.y)) {}                     \
    SIMT_INLINE explicit operator float2() const {                                                                 \
      return make_float2(simt::fp8_to_float((unsigned char)__x, kind),                                             \
                         simt::fp8_to_float((unsigned char)(__x >> 8), kind));                                     \
    }                                                                                                              \
    SIMT_INLINE explicit operator __half2() const { return __float22half2_rn((float2)*this); }                     \
  };
#define SIMT_FP8X4(name, pair, kind)                                                                               \
  struct __attribute__((aligned(4))) name {                                                                        \
    __nv_fp8x4_storage_t __x;                                                                                      \
    name() = default;                                                                                              \
    SIMT_INLINE explicit name(float4 f)                                                                            \
        : __x((unsigned)pair(make_float2(f.z, f.w)).__x << 16 | pair(make_float2(f.x, f.y)).__x) {}                \
    SIMT_INLINE explicit name(__half2 low, __half2 high) : __x((unsigned)pair(high).__x << 16 | pair(low).__x) {}  \
    SIMT_INLINE explicit operator float4() const {                                                                 \
      return make_float4(simt::fp8_to_float((unsigned char)__x, kind),                                             \
                         simt::fp8_to_float((unsigned char)(__x >> 8), kind),                                      \
                         simt::fp8_to_float((unsigned char)(__x >> 16), kind),                                     \
                         simt::fp8_to_float((unsigned char)(__x >> 24), kind));                                    \
    }                                                                                                              \
  };

namespace simt {
SIMT_INLINE double fp8_source(double x) { return x; }
SIMT_INLINE double fp8_source(float x) { return (double)x; }
SIMT_INLINE double fp8_source(__half x) { return (double)(float)x; }
SIMT_INLINE double fp8_source(__nv_bfloat16 x) { return (double)(float)x; }
SIMT_INLINE double fp8_source(int x) { return (double)x; }
SIMT_INLINE double fp8_source(unsigned x) { return (double)x; }
}  // namespace simt

SIMT_FP8(__nv_fp8_e4m3, __NV_E4M3)
SIMT_FP8(__nv_fp8_e5m2, __NV_E5M2)
SIMT_FP8X2(__nv_fp8x2_e4m3, __NV_E4M3)
SIMT_FP8X2(__nv_fp8x2_e5m2, __NV_E5M2)
SIMT_FP8X4(__nv_fp8x4_e4m3, __nv_fp8x2_e4m3, __NV_E4M3)
SIMT_FP8X4(__nv_fp8x4_e5m2, __nv_fp8x2_e5m2, __NV_E5M2)
