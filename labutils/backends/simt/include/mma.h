// Warp matrix instructions (wmma). Products are summed in float, one depth after another: tensor cores sum in
// another order, so results differ in the last bits. Accumulators of 16 x 16 are laid out as the hardware does, and
// operands of 16 x 16 halves are read as ldmatrix does it; the traffic of other operands is an approximation.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace nvcuda {
namespace wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
namespace precision {
struct tf32 {};
}  // namespace precision
enum layout_t { mem_row_major, mem_col_major };

template <class T>
struct Stored {
  typedef T type;
};
template <>
struct Stored<precision::tf32> {
  typedef float type;
};

template <class Use, int M, int N, int K>
struct Shape;
template <int M, int N, int K>
struct Shape<matrix_a, M, N, K> {
  static constexpr int rows = M, columns = K;
};
template <int M, int N, int K>
struct Shape<matrix_b, M, N, K> {
  static constexpr int rows = K, columns = N;
};
template <int M, int N, int K>
struct Shape<accumulator, M, N, K> {
  static constexpr int rows = M, columns = N;
};
template <class Layout>
constexpr bool by_columns = false;
template <>
inline constexpr bool by_columns<col_major> = true;
template <class Use>
constexpr bool is_accumulator = false;
template <>
inline constexpr bool is_accumulator<accumulator> = true;

struct Place {
  int row, column;
};

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {
  typedef typename Stored<T>::type element_type;
  typedef element_type storage_element_type;
  static constexpr int rows = Shape<Use, M, N, K>::rows, columns = Shape<Use, M, N, K>::columns;
  static constexpr int num_elements = rows * columns / 32;
  element_type x[num_elements];
  // Each lane brings half a row, or column, of one of four matrices of 8 x 8.
  static constexpr bool by_ldmatrix = !is_accumulator<Use> && rows == 16 && columns == 16 && sizeof(element_type) == 2;

  // Where element i of a lane lies. An operand's lane holds a run in the direction that is contiguous in
  // memory.
  static constexpr Place place(int lane, int i) {
    if (is_accumulator<Use> && rows == 16 && columns == 16)
      return {(lane >> 2) + ((i >> 1) & 1) * 8, (lane & 3) * 2 + (i & 1) + (i >> 2) * 8};
    if (by_ldmatrix) {
      int across = lane & 15, along = (lane >> 4) * 8 + i;
      return by_columns<Layout> ? Place{along, across} : Place{across, along};
    }
    int p = lane * num_elements + i;
    if (by_columns<Layout>) return {p % rows, p / rows};
    return {p / columns, p % columns};
  }
};

template <class Use, int M, int N, int K, class T, class Layout, class Value>
SIMT_INLINE void fill_fragment(fragment<Use, M, N, K, T, Layout>& f, Value value) {
  for (int i = 0; i < f.num_elements; i++) f.x[i] = (typename Stored<T>::type)value;
}

template <class Fragment, class P>
SIMT_INLINE void load_elements(Fragment& f, const P* p, unsigned stride, bool columns) {
  __syncwarp();
  auto index = [&](int i) {
    Place at = Fragment::place(simt_lane(), i);
    return columns ? at.column * stride + at.row : at.row * stride + at.column;
  };
  if constexpr (Fragment::by_ldmatrix) {
    simt_bits16 eight = *(const simt_bits16*)(p + index(0));
    __builtin_memcpy(f.x, &eight, sizeof eight);
  } else {
    for (int i = 0; i < Fragment::num_elements; i++) f.x[i] = p[index(i)];
  }
}
template <class Use, int M, int N, int K, class T, class Layout, class P>
SIMT_INLINE void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& f, const P* p, unsigned stride) {
  load_elements(f, p, stride, by_columns<Layout>);
}
template <int M, int N, int K, class T, class P>
SIMT_INLINE void load_matrix_sync(fragment<accumulator, M, N, K, T>& f, const P* p, unsigned stride,
                                  layout_t layout) {
  load_elements(f, p, stride, layout == mem_col_major);
}
template <int M, int N, int K, class T, class P>
SIMT_INLINE void store_matrix_sync(P* p, const fragment<accumulator, M, N, K, T>& f, unsigned stride,
                                   layout_t layout) {
  __syncwarp();
  for (int i = 0; i < f.num_elements; i++) {
    Place at = f.place(simt_lane(), i);
    p[layout == mem_col_major ? at.column * stride + at.row : at.row * stride + at.column] = f.x[i];
  }
}

template <class D, class A, class B, class C>
struct Operands {
  D* d;
  const A* a;
  const B* b;
  const C* c;
};

template <int M, int N, int K, class D, class A, class B, class C>
SIMT_UNTRACED void combine_mma(void** payloads, unsigned, unsigned) {
  typedef Operands<D, A, B, C> Lane;
  float a[M * K], b[N * K], c[M * N];
  for (int lane = 0; lane < 32; lane++) {
    const Lane& o = *(const Lane*)payloads[lane];
    for (int i = 0; i < A::num_elements; i++) {
      Place at = A::place(lane, i);
      a[at.row * K + at.column] = (float)o.a->x[i];
    }
    for (int i = 0; i < B::num_elements; i++) {
      Place at = B::place(lane, i);
      b[at.column * K + at.row] = (float)o.b->x[i];
    }
    for (int i = 0; i < C::num_elements; i++) {
      Place at = C::place(lane, i);
      c[at.row * N + at.column] = (float)o.c->x[i];
    }
  }
  simt_matrix_multiply(a, b, c, M, N, K);
  for (int lane = 0; lane < 32; lane++) {
    const Lane& o = *(const Lane*)payloads[lane];
    for (int i = 0; i < D::num_elements; i++) {
      Place at = D::place(lane, i);
      o.d->x[i] = (typename D::element_type)c[at.row * N + at.column];
    }
  }
}

template <int M, int N, int K, class TD, class TA, class LA, class TB, class LB, class TC>
SIMT_INLINE void mma_sync(fragment<accumulator, M, N, K, TD>& d, const fragment<matrix_a, M, N, K, TA, LA>& a,
                          const fragment<matrix_b, M, N, K, TB, LB>& b,
                          const fragment<accumulator, M, N, K, TC>& c) {
  typedef fragment<accumulator, M, N, K, TD> D;
  typedef fragment<matrix_a, M, N, K, TA, LA> A;
  typedef fragment<matrix_b, M, N, K, TB, LB> B;
  typedef fragment<accumulator, M, N, K, TC> C;
  Operands<D, A, B, C> mine{&d, &a, &b, &c};
  simt_collective("wmma::mma_sync", 0xffffffffu, &mine, &combine_mma<M, N, K, D, A, B, C>);
}

SIMT_INLINE float __float_to_tf32(float f) {
  return __uint_as_float((__float_as_uint(f) + 0x1000u) & 0xffffe000u);
}

}  // namespace wmma
}  // namespace nvcuda
