// float4 and its relatives. In checked builds those of 4, 8 and 16 bytes are copied as one access, as a GPU's
// vector loads do: a compiler that splits the copy into members would change what is counted.
#pragma once
#include "simt/qualifiers.h"

typedef unsigned short __attribute__((may_alias)) simt_bits2;
typedef unsigned __attribute__((may_alias)) simt_bits4;
typedef double __attribute__((may_alias)) simt_bits8;
typedef unsigned long long simt_bits16 __attribute__((vector_size(16), may_alias));

namespace simt {
// Types whose copy constructor does nothing but copy their bytes.
template <class T>
constexpr bool copied_whole = false;
}  // namespace simt
#define SIMT_COPIED_WHOLE(name) \
  template <>                   \
  inline constexpr bool simt::copied_whole<name> = true;

#ifdef SIMT_CHECKED
// Keeps the copy whole: the compiler must have all of it in one register here.
SIMT_INLINE void simt_keep(simt_bits2& v) { __asm__("" : "+r"(v)); }
SIMT_INLINE void simt_keep(simt_bits4& v) { __asm__("" : "+r"(v)); }
#if defined(__x86_64__)
SIMT_INLINE void simt_keep(simt_bits8& v) { __asm__("" : "+x"(v)); }
SIMT_INLINE void simt_keep(simt_bits16& v) { __asm__("" : "+x"(v)); }
#else
SIMT_INLINE void simt_keep(simt_bits8& v) { __asm__("" : "+w"(v)); }
SIMT_INLINE void simt_keep(simt_bits16& v) { __asm__("" : "+w"(v)); }
#endif
#define SIMT_COPY_WHOLE(name, bits)                \
  name() = default;                                \
  SIMT_INLINE name(const name& other) {            \
    bits whole = *(const bits*)&other;             \
    simt_keep(whole);                              \
    *(bits*)this = whole;                          \
  }                                                \
  SIMT_INLINE name& operator=(const name& other) { \
    bits whole = *(const bits*)&other;             \
    simt_keep(whole);                              \
    *(bits*)this = whole;                          \
    return *this;                                  \
  }
#define SIMT_COPY_WHOLE_2(name, type, bits) \
  SIMT_COPY_WHOLE(name, bits) constexpr name(type a, type b) : x(a), y(b) {}
#define SIMT_COPY_WHOLE_4(name, type, bits) \
  SIMT_COPY_WHOLE(name, bits) constexpr name(type a, type b, type c, type d) : x(a), y(b), z(c), w(d) {}
#else
#define SIMT_COPY_WHOLE_2(name, type, bits)
#define SIMT_COPY_WHOLE_4(name, type, bits)
#endif

#define SIMT_VECTOR_1(name, type) \
  struct name {                   \
    type x;                       \
  };                              \
  SIMT_INLINE name make_##name(type x) { return name{x}; }
#define SIMT_VECTOR_2(name, type, bits)                \
  struct __attribute__((aligned(sizeof(bits)))) name { \
    type x, y;                                         \
    SIMT_COPY_WHOLE_2(name, type, bits)                \
  };                                                   \
  SIMT_COPIED_WHOLE(name)                              \
  SIMT_INLINE name make_##name(type x, type y) { return name{x, y}; }
#define SIMT_VECTOR_3(name, type) \
  struct name {                   \
    type x, y, z;                 \
  };                              \
  SIMT_INLINE name make_##name(type x, type y, type z) { return name{x, y, z}; }
#define SIMT_VECTOR_4(name, type, bits)                \
  struct __attribute__((aligned(sizeof(bits)))) name { \
    type x, y, z, w;                                   \
    SIMT_COPY_WHOLE_4(name, type, bits)                \
  };                                                   \
  SIMT_COPIED_WHOLE(name)                              \
  SIMT_INLINE name make_##name(type x, type y, type z, type w) { return name{x, y, z, w}; }
// 32 bytes: a GPU moves them as two accesses of 16.
#define SIMT_VECTOR_4_LARGE(name, type)      \
  struct __attribute__((aligned(16))) name { \
    type x, y, z, w;                         \
  };                                         \
  SIMT_INLINE name make_##name(type x, type y, type z, type w) { return name{x, y, z, w}; }

SIMT_VECTOR_1(float1, float)
SIMT_VECTOR_1(int1, int)
SIMT_VECTOR_1(uint1, unsigned)
SIMT_VECTOR_2(char2, signed char, simt_bits2)
SIMT_VECTOR_2(uchar2, unsigned char, simt_bits2)
SIMT_VECTOR_2(short2, short, simt_bits4)
SIMT_VECTOR_2(ushort2, unsigned short, simt_bits4)
SIMT_VECTOR_2(int2, int, simt_bits8)
SIMT_VECTOR_2(uint2, unsigned, simt_bits8)
SIMT_VECTOR_2(float2, float, simt_bits8)
SIMT_VECTOR_2(longlong2, long long, simt_bits16)
SIMT_VECTOR_2(ulonglong2, unsigned long long, simt_bits16)
SIMT_VECTOR_2(double2, double, simt_bits16)
SIMT_VECTOR_3(char3, signed char)
SIMT_VECTOR_3(uchar3, unsigned char)
SIMT_VECTOR_3(short3, short)
SIMT_VECTOR_3(ushort3, unsigned short)
SIMT_VECTOR_3(int3, int)
SIMT_VECTOR_3(uint3, unsigned)
SIMT_VECTOR_3(float3, float)
SIMT_VECTOR_3(double3, double)
SIMT_VECTOR_4(char4, signed char, simt_bits4)
SIMT_VECTOR_4(uchar4, unsigned char, simt_bits4)
SIMT_VECTOR_4(short4, short, simt_bits8)
SIMT_VECTOR_4(ushort4, unsigned short, simt_bits8)
SIMT_VECTOR_4(int4, int, simt_bits16)
SIMT_VECTOR_4(uint4, unsigned, simt_bits16)
SIMT_VECTOR_4(float4, float, simt_bits16)
SIMT_VECTOR_4_LARGE(double4, double)

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return uint3{x, y, z}; }
};
