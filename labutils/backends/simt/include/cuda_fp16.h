// half and half2.
#pragma once
#include "simt/half.h"

SIMT_HALF(__half, __half2, half_to_float, float_to_half)
SIMT_ATOMIC_TYPE(__half, 7)
SIMT_ATOMIC_PAIR(__half2, 10)
typedef __half half;
typedef __half2 half2;

SIMT_INLINE float __half2float(__half h) { return (float)h; }
SIMT_INLINE __half __float2half(float f) { return __half(f); }
SIMT_INLINE __half __float2half_rn(float f) { return __half(f); }
SIMT_INLINE __half __double2half(double f) { return __half(f); }
SIMT_INLINE __half __int2half_rn(int i) { return __half(i); }
SIMT_INLINE __half __uint2half_rn(unsigned i) { return __half(i); }
SIMT_INLINE __half __short2half_rn(short i) { return __half((int)i); }
SIMT_HALF_TO_INT(__half, __half)
SIMT_INLINE __half __ushort_as_half(unsigned short bits) {
  __half h;
  h.__x = bits;
  return h;
}
SIMT_INLINE unsigned short __half_as_ushort(__half h) { return h.__x; }
SIMT_INLINE __half2 __floats2half2_rn(float a, float b) { return __half2(a, b); }
SIMT_INLINE __half2 __float2half2_rn(float a) { return __half2(a, a); }
SIMT_INLINE __half2 __float22half2_rn(float2 a) { return __half2(a.x, a.y); }
SIMT_INLINE float2 __half22float2(__half2 h) { return make_float2((float)h.x, (float)h.y); }
SIMT_INLINE __half2 __halves2half2(__half a, __half b) { return __half2(a, b); }
SIMT_INLINE __half2 __half2half2(__half a) { return __half2(a, a); }
SIMT_INLINE __half2 make_half2(__half a, __half b) { return __half2(a, b); }
SIMT_INLINE __half __low2half(__half2 a) { return a.x; }
SIMT_INLINE __half __high2half(__half2 a) { return a.y; }
SIMT_INLINE __half2 __lowhigh2highlow(__half2 a) { return __half2(a.y, a.x); }
