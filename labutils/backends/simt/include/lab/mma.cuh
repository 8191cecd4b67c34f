// The emulator's side of labutils/include/lab/mma.cuh: the same functions, each a meeting of the warp's lanes.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace simt {

struct MatrixRows {
  unsigned short row[8];
  unsigned m[4];
};

template <bool Transposed>
SIMT_UNTRACED void combine_ldmatrix(void** payloads, unsigned, unsigned) {
  for (int lane = 0; lane < 32; lane++) {
    MatrixRows& mine = *(MatrixRows*)payloads[lane];
    int r = lane >> 2, c = (lane & 3) * 2;
    for (int i = 0; i < 4; i++) {
      const MatrixRows& first = *(const MatrixRows*)payloads[8 * i + (Transposed ? c : r)];
      const MatrixRows& second = *(const MatrixRows*)payloads[8 * i + (Transposed ? c + 1 : r)];
      mine.m[i] = first.row[Transposed ? r : c] | (unsigned)second.row[Transposed ? r : c + 1] << 16;
    }
  }
}

template <bool Transposed>
SIMT_INLINE void ldmatrix(unsigned (&m)[4], const void* row, const char* name) {
  MatrixRows mine;
  simt_bits16 whole = *(const simt_bits16*)row;
  __builtin_memcpy(mine.row, &whole, 16);
  simt_collective(name, 0xffffffffu, &mine, &combine_ldmatrix<Transposed>);
  for (int i = 0; i < 4; i++) m[i] = mine.m[i];
}

struct MmaOperands {
  float d[4];
  unsigned a[4], b[2];
};

// The operands' types: a kernel's own could do anything as it is converted, and here nothing is recorded.
template <class T>
constexpr bool is_operand = false;
template <>
inline constexpr bool is_operand<__half> = true;
template <>
inline constexpr bool is_operand<__nv_bfloat16> = true;

template <class T>
SIMT_UNTRACED float number_of(unsigned both, int half) {
  T x;
  x.__x = (unsigned short)(both >> 16 * half);
  return (float)x;
}

template <class T>
SIMT_UNTRACED void combine_mma(void** payloads, unsigned, unsigned) {
  float a[16 * 16], b[8 * 16], c[16 * 8];
  for (int lane = 0; lane < 32; lane++) {
    const MmaOperands& o = *(const MmaOperands*)payloads[lane];
    int r = lane >> 2, t = (lane & 3) * 2;
    for (int h = 0; h < 2; h++) {
      for (int i = 0; i < 4; i++) a[(r + 8 * (i & 1)) * 16 + t + 8 * (i >> 1) + h] = number_of<T>(o.a[i], h);
      for (int i = 0; i < 2; i++) b[r * 16 + t + 8 * i + h] = number_of<T>(o.b[i], h);
      for (int i = 0; i < 2; i++) c[(r + 8 * i) * 8 + t + h] = o.d[2 * i + h];
    }
  }
  simt_matrix_multiply(a, b, c, 16, 8, 16);
  for (int lane = 0; lane < 32; lane++) {
    MmaOperands& o = *(MmaOperands*)payloads[lane];
    for (int i = 0; i < 4; i++) o.d[i] = c[((lane >> 2) + 8 * (i >> 1)) * 8 + (lane & 3) * 2 + (i & 1)];
  }
}

}  // namespace simt

SIMT_INLINE void copy_async(void* to, const void* from, bool inside = true) {
  simt::copy_async_whole(to, from, 16, inside ? 0 : 16);
}

SIMT_INLINE void ldmatrix_x4(unsigned (&m)[4], const void* row) {
  simt::ldmatrix<false>(m, row, "ldmatrix_x4");
}
SIMT_INLINE void ldmatrix_x4_trans(unsigned (&m)[4], const void* row) {
  simt::ldmatrix<true>(m, row, "ldmatrix_x4_trans");
}

template <class T = __half>
SIMT_INLINE void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  static_assert(simt::is_operand<T>, "mma_m16n8k16 multiplies __half or __nv_bfloat16");
  simt::MmaOperands mine{{d[0], d[1], d[2], d[3]}, {a[0], a[1], a[2], a[3]}, {b0, b1}};
  simt_collective("mma_m16n8k16", 0xffffffffu, &mine, &simt::combine_mma<T>);
  for (int i = 0; i < 4; i++) d[i] = mine.d[i];
}

template <class T = __half>
SIMT_INLINE unsigned pack(float low, float high) {
  return (unsigned)T(low).__x | (unsigned)T(high).__x << 16;
}

SIMT_INLINE float fast_exp2(float x) { return exp2f(x); }
