// Inline PTX: what labutils/backends/simt/ptx makes of an asm statement calls these, named as the instructions are.
#pragma once
#include "simt/half.h"

extern "C" {
void simt_fence_async();
void simt_mbarrier_init(void* bar, int arrivals);
void simt_mbarrier_fence();
void simt_mbarrier_arrive(void* bar, int rank, int bytes);
void simt_mbarrier_wait(void* bar, int parity);
unsigned simt_mbarrier_phase(void* bar);
}

namespace simt::ptx {

typedef unsigned char u8, b8;
typedef signed char s8;
typedef unsigned short u16, b16;
typedef short s16;
typedef unsigned u32, b32;
typedef int s32;
typedef unsigned long long u64, b64;
typedef long long s64;
typedef float f32;
typedef double f64;
typedef bool pred;

// ---- registers

template <class T, class From>
union Bits {
  From from;
  T to;
};

// The low bytes of a register as a value of T.
template <class T, class From>
SIMT_INLINE T as(From value) {
  static_assert(sizeof(T) <= sizeof(From), "inline PTX: a register is narrower than the instruction's type");
  return Bits<T, From>{value}.to;
}

template <class Register, class T>
SIMT_INLINE Register input(T value) {  // an array becomes a pointer
  static_assert(sizeof(T) == sizeof(Register), "inline PTX: an operand has another size than its constraint: \"h\" has "
                "16 bits, \"r\" and \"f\" have 32, \"l\" and \"d\" have 64");
  return Bits<Register, T>{value}.to;
}
template <class T, class Register>
SIMT_INLINE void output(T& value, Register r) {
  value = input<T>(r);
}

template <class T>
constexpr bool is_integer = false;
template <class T>
struct Wide;
#define SIMT_PTX_WIDE(type, unsigned_type, wider) \
  template <>                                     \
  inline constexpr bool is_integer<type> = true;  \
  template <>                                     \
  struct Wide<type> {                             \
    typedef unsigned_type plain;                  \
    typedef wider type_;                          \
  };
SIMT_PTX_WIDE(u8, u8, u16)
SIMT_PTX_WIDE(s8, u8, s16)
SIMT_PTX_WIDE(u16, u16, u32)
SIMT_PTX_WIDE(s16, u16, s32)
SIMT_PTX_WIDE(u32, u32, u64)
SIMT_PTX_WIDE(s32, u32, s64)
SIMT_PTX_WIDE(u64, u64, unsigned __int128)
SIMT_PTX_WIDE(s64, u64, __int128)
#undef SIMT_PTX_WIDE
template <class T>
constexpr bool is_signed = T(-1) < T(0);

// A result fills its register: smaller integers are extended by their sign, as the instruction's type says.
template <class Register, class T>
SIMT_INLINE void put(Register& r, T value) {
  if constexpr (sizeof(T) == sizeof(Register)) {
    r = Bits<Register, T>{value}.to;
  } else {
    static_assert(is_integer<T> && is_integer<Register> && sizeof(T) < sizeof(Register),
                  "inline PTX: a result has another size than its register");
    r = (Register)value;
  }
}
SIMT_INLINE void put(pred& r, bool value) { r = value; }

// ---- numbers of 16 bits

struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};
struct f16x2 {
  f16 low, high;
};
struct bf16x2 {
  bf16 low, high;
};
SIMT_INLINE f32 widened(f16 h) { return half_to_float(h.bits); }
SIMT_INLINE f32 widened(bf16 h) { return bfloat16_to_float(h.bits); }
SIMT_INLINE f32 widened(f32 x) { return x; }
SIMT_INLINE f64 widened(f64 x) { return x; }
template <class T>
SIMT_INLINE T narrowed(f32 x);
template <>
SIMT_INLINE f16 narrowed<f16>(f32 x) {
  return {float_to_half(x)};
}
template <>
SIMT_INLINE bf16 narrowed<bf16>(f32 x) {
  return {float_to_bfloat16(x)};
}
template <>
SIMT_INLINE f32 narrowed<f32>(f32 x) {
  return x;
}
template <class T>
struct Halves {
  static constexpr bool one = false, two = false;
};
#define SIMT_PTX_HALVES(half, pair)                   \
  template <>                                         \
  struct Halves<half> {                               \
    static constexpr bool one = true, two = false;    \
  };                                                  \
  template <>                                         \
  struct Halves<pair> {                               \
    typedef half type;                                \
    static constexpr bool one = false, two = true;    \
  };
SIMT_PTX_HALVES(f16, f16x2)
SIMT_PTX_HALVES(bf16, bf16x2)
#undef SIMT_PTX_HALVES

SIMT_INLINE f32 flush(f32 x) { return __builtin_fabsf(x) < 1.17549435e-38f ? __builtin_copysignf(0.0f, x) : x; }
SIMT_INLINE f64 flush(f64 x) { return x; }
SIMT_INLINE f16 flush(f16 x) { return {(u16)(x.bits & 0x7c00 ? x.bits : x.bits & 0x8000)}; }
SIMT_INLINE bf16 flush(bf16 x) { return {(u16)(x.bits & 0x7f80 ? x.bits : x.bits & 0x8000)}; }
SIMT_INLINE bf16x2 flush(bf16x2 x) { return {flush(x.low), flush(x.high)}; }
SIMT_INLINE f16x2 flush(f16x2 x) { return {flush(x.low), flush(x.high)}; }
SIMT_INLINE f32 saturate(f32 x) { return x > 0 ? x < 1 ? x : 1 : 0; }  // of NaN: 0
SIMT_INLINE f64 saturate(f64 x) { return x > 0 ? x < 1 ? x : 1 : 0; }
SIMT_INLINE f16 saturate(f16 x) { return narrowed<f16>(saturate(widened(x))); }
SIMT_INLINE f16x2 saturate(f16x2 x) { return {saturate(x.low), saturate(x.high)}; }
SIMT_INLINE f32 relu(f32 x) { return x > 0 ? x : x != x ? x : 0; }

// ---- arithmetic: of integers modulo their size, of halves in float and rounded

SIMT_INLINE f32 exact_fma(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }
SIMT_INLINE f64 exact_fma(f64 a, f64 b, f64 c) { return ::fma(a, b, c); }

#define SIMT_PTX_UNARY(name, integer, floating)                                                 \
  template <class T>                                                                            \
  SIMT_INLINE T name(T a) {                                                                     \
    if constexpr (Halves<T>::two) {                                                             \
      typedef typename Halves<T>::type H;                                                       \
      return T{name<H>(a.low), name<H>(a.high)};                                                \
    } else if constexpr (Halves<T>::one) {                                                      \
      return narrowed<T>(name<f32>(widened(a)));                                                \
    } else if constexpr (is_integer<T>) {                                                       \
      typedef typename Wide<T>::plain U;                                                        \
      const U x = (U)a;                                                                         \
      (void)x;                                                                                  \
      return (T)(integer);                                                                      \
    } else {                                                                                    \
      const T x = a;                                                                            \
      return floating;                                                                          \
    }                                                                                           \
  }
#define SIMT_PTX_BINARY(name, integer, floating)                                                \
  template <class T>                                                                            \
  SIMT_INLINE T name(T a, T b) {                                                                \
    if constexpr (Halves<T>::two) {                                                             \
      typedef typename Halves<T>::type H;                                                       \
      return T{name<H>(a.low, b.low), name<H>(a.high, b.high)};                                 \
    } else if constexpr (Halves<T>::one) {                                                      \
      return narrowed<T>(name<f32>(widened(a), widened(b)));                                    \
    } else if constexpr (is_integer<T>) {                                                       \
      typedef typename Wide<T>::plain U;                                                        \
      const U x = (U)a, y = (U)b;                                                               \
      (void)x, (void)y;                                                                         \
      return (T)(integer);                                                                      \
    } else {                                                                                    \
      const T x = a, y = b;                                                                     \
      return floating;                                                                          \
    }                                                                                           \
  }
SIMT_PTX_BINARY(add, x + y, x + y)
SIMT_PTX_BINARY(sub, x - y, x - y)
SIMT_PTX_BINARY(mul, x* y, x* y)
SIMT_PTX_BINARY(min, a < b ? a : b, ::min(x, y))
SIMT_PTX_BINARY(max, a < b ? b : a, ::max(x, y))
SIMT_PTX_UNARY(neg, 0 - x, -x)
SIMT_PTX_UNARY(abs, is_signed<T>&& a < 0 ? 0 - x : x, x < 0 ? -x : x == 0 ? T(0) : x)
SIMT_PTX_UNARY(ex2, 0, ::exp2(x))
SIMT_PTX_UNARY(tanh, 0, ::tanh(x))
#undef SIMT_PTX_UNARY
#undef SIMT_PTX_BINARY

template <class T>
SIMT_INLINE T fma(T a, T b, T c) {
  if constexpr (Halves<T>::two) {
    typedef typename Halves<T>::type H;
    return T{fma<H>(a.low, b.low, c.low), fma<H>(a.high, b.high, c.high)};
  } else if constexpr (Halves<T>::one) {
    return narrowed<T>(fused_for_half(widened(a), widened(b), widened(c)));
  } else {
    return exact_fma(a, b, c);
  }
}

template <class T>
SIMT_INLINE T mul_lo(T a, T b) {
  return (T)((typename Wide<T>::type_)a * (typename Wide<T>::type_)b);
}
template <class T>
SIMT_INLINE T mul_hi(T a, T b) {
  return (T)((typename Wide<T>::type_)a * (typename Wide<T>::type_)b >> 8 * sizeof(T));
}
template <class T>
SIMT_INLINE typename Wide<T>::type_ mul_wide(T a, T b) {
  return (typename Wide<T>::type_)a * (typename Wide<T>::type_)b;
}
// By zero: all bits set, as on a GPU.
template <class T>
SIMT_INLINE T div(T a, T b) {
  if constexpr (is_integer<T>) {
    if (b == 0) return (T)-1;
    return is_signed<T> && b == (T)-1 ? neg<T>(a) : (T)(a / b);
  } else {
    return a / b;
  }
}
template <class T>
SIMT_INLINE T rem(T a, T b) {
  if (b == 0) return a;
  return is_signed<T> && b == (T)-1 ? 0 : (T)(a % b);
}
template <class T>
SIMT_INLINE T sad(T a, T b, T c) {
  return add<T>(c, a < b ? sub<T>(b, a) : sub<T>(a, b));
}
template <class T>
SIMT_INLINE T and_(T a, T b) {
  return a & b;
}
template <class T>
SIMT_INLINE T or_(T a, T b) {
  return a | b;
}
template <class T>
SIMT_INLINE T xor_(T a, T b) {
  return a ^ b;
}
template <class T>
SIMT_INLINE T not_(T a) {
  return (T)~a;
}
template <>
SIMT_INLINE pred not_<pred>(pred a) {
  return !a;
}
template <class T>
SIMT_INLINE T rcp(T x) {
  return 1 / x;
}
template <class T>
SIMT_INLINE T sqrt(T x) {
  return ::sqrt(x);
}
template <class T>
SIMT_INLINE T rsqrt(T x) {
  return 1 / ::sqrt(x);
}
template <class T>
SIMT_INLINE T sin(T x) {
  return ::sin(x);
}
template <class T>
SIMT_INLINE T cos(T x) {
  return ::cos(x);
}
template <class T>
SIMT_INLINE T lg2(T x) {
  return ::log2(x);
}
// The sign of the first operand with the size of the second.
template <class T>
SIMT_INLINE T copysign(T a, T b) {
  return ::copysign(b, a);
}

// ---- bits

// Shifts by more than all bits give zeros, or the sign.
template <class T>
SIMT_INLINE T shl(T a, u32 n) {
  return n < 8 * sizeof(T) ? (T)(a << n) : 0;
}
template <class T>
SIMT_INLINE T shr(T a, u32 n) {
  return n < 8 * sizeof(T) ? (T)(a >> n) : is_signed<T> && a < 0 ? (T)-1 : 0;
}
SIMT_INLINE u32 shf_l(u32 low, u32 high, u32 n, bool clamp) {
  n = clamp ? (n < 32 ? n : 32) : n & 31;
  return (u32)(((u64)high << 32 | low) << n >> 32);
}
SIMT_INLINE u32 shf_r(u32 low, u32 high, u32 n, bool clamp) {
  n = clamp ? (n < 32 ? n : 32) : n & 31;
  return (u32)(((u64)high << 32 | low) >> n);
}
SIMT_INLINE u32 popc(b32 x) { return (u32)__popc(x); }
SIMT_INLINE u32 popc(b64 x) { return (u32)__popcll(x); }
SIMT_INLINE u32 clz(b32 x) { return (u32)__clz((int)x); }
SIMT_INLINE u32 clz(b64 x) { return (u32)__clzll((long long)x); }
SIMT_INLINE b32 brev(b32 x) { return __brev(x); }
SIMT_INLINE b64 brev(b64 x) { return (u64)__brev((u32)x) << 32 | __brev((u32)(x >> 32)); }
// The most significant bit that differs from the sign; with `shift` how far it is from the highest one.
template <class T>
SIMT_INLINE u32 bfind(T a, bool shift) {
  const u64 x = (typename Wide<T>::plain)(is_signed<T> && a < 0 ? ~a : a);
  if (x == 0) return 0xffffffffu;
  const u32 bit = 63 - clz(x);
  return shift ? 8 * sizeof(T) - 1 - bit : bit;
}
template <class T>
SIMT_INLINE T bfe(T a, u32 position, u32 length) {
  const u32 most = 8 * sizeof(T) - 1;
  position &= 0xff, length &= 0xff;
  const u32 last = position + length - 1 < most ? position + length - 1 : most;
  const bool sign = is_signed<T> && length && (u64)a >> last & 1;
  u64 d = 0;
  for (u32 i = 0; i <= most; i++) {
    const bool bit = i < length && position + i <= most ? (u64)a >> (position + i) & 1 : sign;
    d |= (u64)bit << i;
  }
  return (T)d;
}
template <class T>
SIMT_INLINE T bfi(T a, T b, u32 position, u32 length) {
  position &= 0xff, length &= 0xff;
  for (u32 i = 0; i < length && position + i < 8 * sizeof(T); i++) {
    const T bit = (T)1 << (position + i);
    b = (a >> i & 1) ? b | bit : b & ~bit;
  }
  return b;
}
SIMT_INLINE u32 lop3(u32 a, u32 b, u32 c, u32 table) {
  u32 d = 0;
  for (u32 i = 0; i < 8; i++)
    if (table >> i & 1) d |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
  return d;
}
SIMT_INLINE u32 byte_of(u64 both, u32 selector) {
  const u32 byte = (u32)(both >> 8 * (selector & 7)) & 0xff;
  return selector & 8 ? (byte & 0x80 ? 0xff : 0) : byte;
}
SIMT_INLINE u32 bytes_of(u32 a, u32 b, u32 s0, u32 s1, u32 s2, u32 s3) {
  const u64 both = (u64)b << 32 | a;
  return byte_of(both, s0) | byte_of(both, s1) << 8 | byte_of(both, s2) << 16 | byte_of(both, s3) << 24;
}
SIMT_INLINE u32 prmt_generic(u32 a, u32 b, u32 c) {
  return bytes_of(a, b, c & 15, c >> 4 & 15, c >> 8 & 15, c >> 12 & 15);
}
SIMT_INLINE u32 prmt_f4e(u32 a, u32 b, u32 c) {
  c &= 3;
  return bytes_of(a, b, c, c + 1, c + 2, c + 3);
}
SIMT_INLINE u32 prmt_b4e(u32 a, u32 b, u32 c) {
  c &= 3;
  return bytes_of(a, b, c, (c + 7) & 7, (c + 6) & 7, (c + 5) & 7);
}
SIMT_INLINE u32 prmt_rc8(u32 a, u32 b, u32 c) {
  c &= 3;
  return bytes_of(a, b, c, c, c, c);
}
SIMT_INLINE u32 prmt_ecl(u32 a, u32 b, u32 c) {
  c &= 3;
  return bytes_of(a, b, c, c > 1 ? c : 1, c > 2 ? c : 2, 3);
}
SIMT_INLINE u32 prmt_ecr(u32 a, u32 b, u32 c) {
  c &= 3;
  return bytes_of(a, b, 0, c < 1 ? c : 1, c < 2 ? c : 2, c);
}
SIMT_INLINE u32 prmt_rc16(u32 a, u32 b, u32 c) {
  c = (c & 1) * 2;
  return bytes_of(a, b, c, c + 1, c, c + 1);
}
template <class A, class B>
SIMT_INLINE u32 dp4a(A a, B b, u32 c) {
  for (int i = 0; i < 4; i++) {
    const s32 x = is_signed<A> ? (s8)(a >> 8 * i) : (u8)(a >> 8 * i);
    const s32 y = is_signed<B> ? (s8)(b >> 8 * i) : (u8)(b >> 8 * i);
    c += (u32)(x * y);
  }
  return c;
}
SIMT_INLINE u32 vabsdiff4_add(u32 a, u32 b, u32 c) {
  for (int i = 0; i < 4; i++) {
    const u32 x = a >> 8 * i & 0xff, y = b >> 8 * i & 0xff;
    c += x < y ? y - x : x - y;
  }
  return c;
}

// ---- comparisons: those of floats that end in u are true where an operand is NaN

#define SIMT_PTX_COMPARE(name, expression) \
  template <class T>                       \
  SIMT_INLINE pred cmp_##name(T a, T b) {  \
    return expression;                     \
  }
SIMT_PTX_COMPARE(eq, a == b)
SIMT_PTX_COMPARE(ne, a < b || a > b)
SIMT_PTX_COMPARE(lt, a < b)
SIMT_PTX_COMPARE(le, a <= b)
SIMT_PTX_COMPARE(gt, a > b)
SIMT_PTX_COMPARE(ge, a >= b)
SIMT_PTX_COMPARE(equ, !(a < b || a > b))
SIMT_PTX_COMPARE(neu, !(a == b))
SIMT_PTX_COMPARE(ltu, !(a >= b))
SIMT_PTX_COMPARE(leu, !(a > b))
SIMT_PTX_COMPARE(gtu, !(a <= b))
SIMT_PTX_COMPARE(geu, !(a < b))
SIMT_PTX_COMPARE(num, a == a && b == b)
SIMT_PTX_COMPARE(nan, a != a || b != b)
#undef SIMT_PTX_COMPARE

// ---- conversions

SIMT_INLINE f32 rni(f32 x) { return __builtin_rintf(x); }
SIMT_INLINE f32 rzi(f32 x) { return truncf(x); }
SIMT_INLINE f32 rmi(f32 x) { return floorf(x); }
SIMT_INLINE f32 rpi(f32 x) { return ceilf(x); }
SIMT_INLINE f64 rni(f64 x) { return rint(x); }
SIMT_INLINE f64 rzi(f64 x) { return trunc(x); }
SIMT_INLINE f64 rmi(f64 x) { return floor(x); }
SIMT_INLINE f64 rpi(f64 x) { return ceil(x); }

template <class T>
struct Range {
  static constexpr bool is = is_signed<T>;
  static constexpr T least = is ? (T)((u64)1 << (8 * sizeof(T) - 1)) : (T)0;
  static constexpr T most = (T)~least;
};

// Floats to integers are clamped, NaN is 0, or the highest bit where 64 bits are concerned; integers keep their low bits
// unless they saturate.
template <class To, class Of, class Value>
SIMT_INLINE To converted(Value value, bool saturates) {
  if constexpr (is_integer<To> && is_integer<Of>) {
    if (!saturates) return (To)value;
    const __int128 x = value, least = Range<To>::least, most = Range<To>::most;
    return (To)(x < least ? least : x > most ? most : x);
  } else if constexpr (is_integer<To>) {
    const f64 x = value;
    if (x != x) return sizeof(To) < 8 && sizeof(Of) < 8 ? (To)0 : (To)((u64)1 << (8 * sizeof(To) - 1));
    if (x <= (f64)Range<To>::least) return Range<To>::least;
    return x >= (f64)Range<To>::most ? Range<To>::most : (To)x;
  } else if constexpr (is_integer<Of>) {
    if constexpr (sizeof(To) == 2)
      return narrowed<To>((f32)value);  // exact, or beyond all halves
    else
      return (To)value;
  } else {
    if constexpr (sizeof(To) == 2)
      return narrowed<To>(saturates ? saturate((f32)widened(value)) : (f32)widened(value));
    else
      return saturates ? saturate((To)widened(value)) : (To)widened(value);
  }
}
SIMT_INLINE f16x2 pack_f16x2(f32 high, f32 low) { return {narrowed<f16>(low), narrowed<f16>(high)}; }
SIMT_INLINE bf16x2 pack_bf16x2(f32 high, f32 low) { return {narrowed<bf16>(low), narrowed<bf16>(high)}; }
SIMT_INLINE b32 tf32_rna(f32 x) { return x != x ? 0x7fffe000u : (as<u32>(x) + 0x1000u) & 0xffffe000u; }
SIMT_INLINE b32 tf32_rn(f32 x) {
  return x != x ? 0x7fffe000u : (as<u32>(x) + 0xfffu + (as<u32>(x) >> 13 & 1)) & 0xffffe000u;
}

// ---- memory

SIMT_INLINE s64 address(b32 base) { return (s64)base; }
SIMT_INLINE s64 address(b64 base) { return (s64)base; }
SIMT_INLINE char* generic(s64 address) { return (char*)address; }
SIMT_INLINE char* shared(s64 address) { return (char*)simt_shared_pointer((u32)address); }
SIMT_INLINE u32 to_shared(u64 pointer) { return simt_shared_address((const void*)pointer); }
SIMT_INLINE u64 from_shared(u64 address) { return (u64)simt_shared_pointer((u32)address); }

template <class T>
SIMT_INLINE T load(const char* p, bool read_only = false) {
  return read_only ? __ldg((const T*)p) : *(const T*)p;
}
template <class T>
SIMT_INLINE T load_volatile(const char* p) {
  return *(const volatile T*)p;
}
template <class T>
SIMT_INLINE void store(char* p, T value) {
  *(T*)p = value;
}
template <class T>
SIMT_INLINE void store_volatile(char* p, T value) {
  *(volatile T*)p = value;
}
template <unsigned Bytes>
struct Whole;
template <>
struct Whole<2> {
  typedef simt_bits2 type;
};
template <>
struct Whole<4> {
  typedef simt_bits4 type;
};
template <>
struct Whole<8> {
  typedef simt_bits8 type;
};
template <>
struct Whole<16> {
  typedef simt_bits16 type;
};
template <class T, unsigned N>
struct Several {
  T all[N];
};
template <class T, unsigned N>
SIMT_INLINE Several<T, N> load_vector(const char* p, bool read_only = false) {
  typedef typename Whole<N * sizeof(T)>::type Bytes;
  return Bits<Several<T, N>, Bytes>{read_only ? __ldg((const Bytes*)p) : *(const Bytes*)p}.to;
}
template <class T, unsigned N>
SIMT_INLINE void store_vector(char* p, Several<T, N> values) {
  typedef typename Whole<N * sizeof(T)>::type Bytes;
  *(Bytes*)p = Bits<Bytes, Several<T, N>>{values}.to;
}

#define SIMT_PTX_ATOMIC(name)                  \
  template <class T>                           \
  SIMT_INLINE T name##_(char* p, T value) {    \
    return name((T*)p, value);                 \
  }
SIMT_PTX_ATOMIC(atomicAdd)
SIMT_PTX_ATOMIC(atomicMin)
SIMT_PTX_ATOMIC(atomicMax)
SIMT_PTX_ATOMIC(atomicInc)
SIMT_PTX_ATOMIC(atomicDec)
SIMT_PTX_ATOMIC(atomicAnd)
SIMT_PTX_ATOMIC(atomicOr)
SIMT_PTX_ATOMIC(atomicXor)
SIMT_PTX_ATOMIC(atomicExch)
#undef SIMT_PTX_ATOMIC
template <class T>
SIMT_INLINE T atomicCAS_(char* p, T expected, T value) {
  return atomicCAS((T*)p, expected, value);
}

// cp.async: `size` bytes, of which those behind `given` become 0.
SIMT_INLINE void copy_async(void* to, const void* from, u32 size, u32 given, bool past_l1) {
  if (past_l1 ? size != 16 : size != 4 && size != 8 && size != 16)
    simt_assert("cp.async of 4, 8 or 16 bytes, and with .cg of 16", 0);
  copy_async_whole(to, from, size, given < size ? size - given : 0);
}

SIMT_INLINE u64 mbarrier_arrive(void* bar, u32 count, int bytes) {
  const u64 phase = simt_mbarrier_phase(bar);
  for (u32 i = 0; i < count; i++) simt_mbarrier_arrive(bar, -1, bytes);
  return phase;
}

// ---- lanes

constexpr u32 sms = 132;  // as an H200 has them: block n runs on SM n mod 132
SIMT_INLINE u32 smid() {
  const uint3 b = simt_block_index(), g = simt_grid_size();
  return ((b.z * g.y + b.y) * g.x + b.x) % sms;
}
SIMT_INLINE u32 warps() {
  const uint3 d = simt_block_size();
  return (d.x * d.y * d.z + 31) / 32;
}
// %lanemask_…: the lane itself (0), those before (-1) or after it (1), and with itself (-2, 2).
SIMT_INLINE u32 lanes(int which) {
  const u32 mine = 1u << simt_lane();
  if (which == 0) return mine;
  if (which < 0) return (mine - 1) | (which == -2 ? mine : 0);
  return ~(mine - 1) & (which == 2 ? 0xffffffffu : ~mine);
}
SIMT_INLINE u32 elect(u32 mask) {
  return (u32)__ffs((int)(u32)simt_vote("elect.sync", mask, 1, 0)) - 1;
}

struct Shuffled {
  u32 value;
  bool inside;
};
// PTX ISA, shfl.sync: `c` holds a clamp in bits 0 to 4 and a mask of segments in bits 8 to 12.
SIMT_INLINE Shuffled shuffled(u32 value, int source, bool inside, u32 mask) {
  u64 bits = value;
  simt_shuffle("shfl.sync", mask, &bits, inside ? source : (int)simt_lane(), 32, 0);
  return {(u32)bits, inside};
}
SIMT_INLINE int first_lane(u32 c) { return (int)(simt_lane() & (c >> 8 & 31)); }
SIMT_INLINE int last_lane(u32 c) { return first_lane(c) | (int)(c & 31 & ~(c >> 8)); }
SIMT_INLINE Shuffled shfl_up(u32 value, u32 b, u32 c, u32 mask) {
  const int source = (int)simt_lane() - (int)(b & 31);
  return shuffled(value, source, source >= last_lane(c), mask);
}
SIMT_INLINE Shuffled shfl_down(u32 value, u32 b, u32 c, u32 mask) {
  const int source = (int)simt_lane() + (int)(b & 31);
  return shuffled(value, source, source <= last_lane(c), mask);
}
SIMT_INLINE Shuffled shfl_bfly(u32 value, u32 b, u32 c, u32 mask) {
  const int source = (int)(simt_lane() ^ (b & 31));
  return shuffled(value, source, source <= last_lane(c), mask);
}
SIMT_INLINE Shuffled shfl_idx(u32 value, u32 b, u32 c, u32 mask) {
  const int source = first_lane(c) | (int)(b & 31 & ~(c >> 8));
  return shuffled(value, source, source <= last_lane(c), mask);
}

SIMT_INLINE pred vote_all(pred p, u32 mask) { return simt_vote("vote.sync.all", mask, p, 2) != 0; }
SIMT_INLINE pred vote_any(pred p, u32 mask) { return simt_vote("vote.sync.any", mask, p, 1) != 0; }
SIMT_INLINE pred vote_uni(pred p, u32 mask) { return simt_vote("vote.sync.uni", mask, p, 12) != 0; }
SIMT_INLINE b32 vote_ballot(pred p, u32 mask) { return (b32)simt_vote("vote.sync.ballot", mask, p, 0); }

SIMT_INLINE u32 block_threads() {
  const uint3 d = simt_block_size();
  return d.x * d.y * d.z;
}
SIMT_INLINE void bar_sync(u32 number, u32 threads, SIMT_LINE) {
  if (number == 0 && threads == block_threads())
    simt_barrier("bar.sync", line);
  else
    simt_named_barrier(number & 15, threads, 1);
}
SIMT_INLINE void bar_sync_all(u32 number, SIMT_LINE) { bar_sync(number, block_threads(), line); }
SIMT_INLINE void bar_arrive(u32 number, u32 threads) { simt_named_barrier(number & 15, threads, 0); }

// ---- matrices of 8 x 8 numbers of 16 bits: lane 8 i + r knows the address of row r of matrix i

struct Rows {
  u16 row[8];
  u32 m[4];
};
template <bool Transposed>
SIMT_UNTRACED void distribute(void** payloads, unsigned, unsigned) {
  for (int lane = 0; lane < 32; lane++) {
    Rows& mine = *(Rows*)payloads[lane];
    const int r = lane >> 2, c = (lane & 3) * 2;
    for (int i = 0; i < 4; i++) {
      const Rows& first = *(const Rows*)payloads[8 * i + (Transposed ? c : r)];
      const Rows& second = *(const Rows*)payloads[8 * i + (Transposed ? c + 1 : r)];
      mine.m[i] = first.row[Transposed ? r : c] | (u32)second.row[Transposed ? r : c + 1] << 16;
    }
  }
}
template <bool Transposed>
SIMT_UNTRACED void collect(void** payloads, unsigned, unsigned) {
  for (int lane = 0; lane < 32; lane++) {
    const Rows& mine = *(const Rows*)payloads[lane];
    const int r = lane >> 2, c = (lane & 3) * 2;
    for (int i = 0; i < 4; i++)
      for (int h = 0; h < 2; h++)
        ((Rows*)payloads[8 * i + (Transposed ? c + h : r)])->row[Transposed ? r : c + h] = (u16)(mine.m[i] >> 16 * h);
  }
}
template <int N, bool Transposed>
SIMT_INLINE void ldmatrix(u32 (&m)[N], const char* row) {
  Rows mine{};
  if (simt_lane() < 8 * N) {
    const Several<u16, 8> whole = load_vector<u16, 8>(row);
    for (int i = 0; i < 8; i++) mine.row[i] = whole.all[i];
  }
  simt_collective("ldmatrix", 0xffffffffu, &mine, &distribute<Transposed>);
  for (int i = 0; i < N; i++) m[i] = mine.m[i];
}
template <int N, bool Transposed>
SIMT_INLINE void stmatrix(char* row, const u32 (&m)[N]) {
  Rows mine{};
  for (int i = 0; i < N; i++) mine.m[i] = m[i];
  simt_collective("stmatrix", 0xffffffffu, &mine, &collect<Transposed>);
  if (simt_lane() < 8 * N) {
    Several<u16, 8> whole;
    for (int i = 0; i < 8; i++) whole.all[i] = mine.row[i];
    store_vector<u16, 8>(row, whole);
  }
}

// ---- mma: 16 x 8 sums; register i of a holds row `lane / 4` (+ 8 where i is odd), register i of b column `lane / 4`,
// each as many neighbors in depth as fit, from `lane % 4` on, and those of the next four lanes' width further on

struct of_f16 {
  static constexpr int packed = 2;
  typedef f32 type;
  static SIMT_INLINE f32 get(u32 r, int i) { return half_to_float((u16)(r >> 16 * i)); }
};
struct of_bf16 {
  static constexpr int packed = 2;
  typedef f32 type;
  static SIMT_INLINE f32 get(u32 r, int i) { return bfloat16_to_float((u16)(r >> 16 * i)); }
};
struct of_tf32 {
  static constexpr int packed = 1;
  typedef f32 type;
  static SIMT_INLINE f32 get(u32 r, int) { return as<f32>(r & 0xffffe000u); }
};
struct of_s8 {
  static constexpr int packed = 4;
  typedef s32 type;
  static SIMT_INLINE s32 get(u32 r, int i) { return (s8)(r >> 8 * i); }
};
struct of_u8 {
  static constexpr int packed = 4;
  typedef s32 type;
  static SIMT_INLINE s32 get(u32 r, int i) { return (u8)(r >> 8 * i); }
};

template <class Sum>
struct Fragments {
  Sum d[4];
  u32 a[8], b[4];
};
SIMT_UNTRACED inline void accumulate(const f32* a, const f32* b, f32* c, int depth) {
  simt_matrix_multiply(a, b, c, 16, 8, depth);
}
SIMT_UNTRACED inline void accumulate(const s32* a, const s32* b, s32* c, int depth) {
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 8; j++) {
      u32 sum = (u32)c[i * 8 + j];
      for (int k = 0; k < depth; k++) sum += (u32)(a[i * depth + k] * b[j * depth + k]);
      c[i * 8 + j] = (s32)sum;
    }
}
template <class A, class B, int Registers>
SIMT_UNTRACED void combine_mma(void** payloads, unsigned, unsigned) {
  typedef typename A::type Sum;
  constexpr int packed = A::packed, depth = 4 * packed * Registers;
  Sum a[16 * depth], b[8 * depth], c[16 * 8];
  for (int lane = 0; lane < 32; lane++) {
    const Fragments<Sum>& o = *(const Fragments<Sum>*)payloads[lane];
    const int g = lane >> 2, t = lane & 3;
    for (int h = 0; h < packed; h++) {
      for (int i = 0; i < 2 * Registers; i++)
        a[(g + 8 * (i & 1)) * depth + (t + 4 * (i >> 1)) * packed + h] = A::get(o.a[i], h);
      for (int i = 0; i < Registers; i++) b[g * depth + (t + 4 * i) * packed + h] = B::get(o.b[i], h);
    }
    for (int i = 0; i < 4; i++) c[(g + 8 * (i >> 1)) * 8 + t * 2 + (i & 1)] = o.d[i];
  }
  accumulate(a, b, c, depth);
  for (int lane = 0; lane < 32; lane++) {
    Fragments<Sum>& o = *(Fragments<Sum>*)payloads[lane];
    for (int i = 0; i < 4; i++) o.d[i] = c[((lane >> 2) + 8 * (i >> 1)) * 8 + (lane & 3) * 2 + (i & 1)];
  }
}
template <class A, class B, int Registers, class Sum>
SIMT_INLINE void mma(Sum (&d)[4], const u32 (&a)[2 * Registers], const u32 (&b)[Registers]) {
  Fragments<Sum> mine{};
  for (int i = 0; i < 4; i++) mine.d[i] = d[i];
  for (int i = 0; i < 2 * Registers; i++) mine.a[i] = a[i];
  for (int i = 0; i < Registers; i++) mine.b[i] = b[i];
  simt_collective("mma.sync", 0xffffffffu, &mine, &combine_mma<A, B, Registers>);
  for (int i = 0; i < 4; i++) d[i] = mine.d[i];
}
// With sums of 16 bits, two in a register.
template <class A, class B, int Registers>
SIMT_INLINE void mma(u32 (&d)[2], const u32 (&a)[2 * Registers], const u32 (&b)[Registers]) {
  f32 sums[4];
  for (int i = 0; i < 4; i++) sums[i] = half_to_float((u16)(d[i >> 1] >> 16 * (i & 1)));
  mma<A, B, Registers>(sums, a, b);
  for (int i = 0; i < 2; i++) d[i] = float_to_half(sums[2 * i]) | (u32)float_to_half(sums[2 * i + 1]) << 16;
}

}  // namespace simt::ptx
