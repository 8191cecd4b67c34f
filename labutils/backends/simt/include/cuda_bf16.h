// __nv_bfloat16 and __nv_bfloat162.
#pragma once
#include "simt/half.h"

SIMT_HALF(__nv_bfloat16, __nv_bfloat162, bfloat16_to_float, float_to_bfloat16)
SIMT_ATOMIC_TYPE(__nv_bfloat16, 8)
SIMT_ATOMIC_PAIR(__nv_bfloat162, 11)
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

SIMT_INLINE float __bfloat162float(__nv_bfloat16 h) { return (float)h; }
SIMT_INLINE __nv_bfloat16 __float2bfloat16(float f) { return __nv_bfloat16(f); }
SIMT_INLINE __nv_bfloat16 __float2bfloat16_rn(float f) { return __nv_bfloat16(f); }
SIMT_INLINE __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  __nv_bfloat16 h;
  h.__x = bits;
  return h;
}
SIMT_INLINE unsigned short __bfloat16_as_ushort(__nv_bfloat16 h) { return h.__x; }
SIMT_INLINE __nv_bfloat162 __floats2bfloat162_rn(float a, float b) { return __nv_bfloat162(a, b); }
SIMT_INLINE __nv_bfloat162 __float2bfloat162_rn(float a) { return __nv_bfloat162(a, a); }
SIMT_INLINE __nv_bfloat162 __float22bfloat162_rn(float2 a) { return __nv_bfloat162(a.x, a.y); }
SIMT_INLINE __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return __nv_bfloat162(a, a); }
SIMT_INLINE __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) {
  return __nv_bfloat162(a, b);
}
SIMT_INLINE float2 __bfloat1622float2(__nv_bfloat162 h) { return make_float2((float)h.x, (float)h.y); }
SIMT_INLINE __nv_bfloat16 __low2bfloat16(__nv_bfloat162 a) { return a.x; }
SIMT_INLINE __nv_bfloat16 __high2bfloat16(__nv_bfloat162 a) { return a.y; }
SIMT_INLINE __nv_bfloat16 __int2bfloat16_rn(int i) { return __nv_bfloat16(i); }
SIMT_INLINE __nv_bfloat16 __uint2bfloat16_rn(unsigned i) { return __nv_bfloat16(i); }
SIMT_HALF_TO_INT(__nv_bfloat16, __bfloat16)
