// Warp matrix instructions (wmma). Products are summed one depth after another, of doubles in double, of integers as
// unsigned, others in float: tensor cores sum in another order, so results differ in the last bits. Accumulators of 16 x 16 are laid out as the hardware does, and
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

}  // namespace wmma
}  // namespace nvcuda

namespace simt {
namespace wmma = nvcuda::wmma;

// What a fragment of T holds. Other types than these have no tensor core, and a kernel's own could do anything as it is
// converted where nothing is recorded.
template <class T>
struct Stored;
#define SIMT_STORED(name, as) \
  template <>                 \
  struct Stored<name> {       \
    typedef as type;          \
  };
SIMT_STORED(__half, __half)
SIMT_STORED(__nv_bfloat16, __nv_bfloat16)
SIMT_STORED(float, float)
SIMT_STORED(double, double)
SIMT_STORED(int, int)
SIMT_STORED(signed char, signed char)
SIMT_STORED(unsigned char, unsigned char)
SIMT_STORED(wmma::precision::tf32, float)
#undef SIMT_STORED

template <class Use, int M, int N, int K>
struct Shape;
template <int M, int N, int K>
struct Shape<wmma::matrix_a, M, N, K> {
  static constexpr int rows = M, columns = K;
};
template <int M, int N, int K>
struct Shape<wmma::matrix_b, M, N, K> {
  static constexpr int rows = K, columns = N;
};
template <int M, int N, int K>
struct Shape<wmma::accumulator, M, N, K> {
  static constexpr int rows = M, columns = N;
};
template <class Layout>
constexpr bool by_columns = false;
template <>
inline constexpr bool by_columns<wmma::col_major> = true;
template <class Use>
constexpr bool is_accumulator = false;
template <>
inline constexpr bool is_accumulator<wmma::accumulator> = true;

struct Place {
  int row, column;
};

// A fragment's elements: how many a lane has, and where they are.
template <class Use, int M, int N, int K, class T, class Layout>
struct Elements {
  typedef typename Stored<T>::type type;
  static constexpr int rows = Shape<Use, M, N, K>::rows, columns = Shape<Use, M, N, K>::columns;
  static constexpr int count = rows * columns / 32;
  // Each lane brings half a row, or column, of one of four matrices of 8 x 8.
  static constexpr bool by_ldmatrix = !is_accumulator<Use> && rows == 16 && columns == 16 && sizeof(type) == 2;

  // Where element i of a lane lies. An operand's lane holds a run in the direction that is contiguous in
  // memory.
  static constexpr Place place(int lane, int i) {
    if (is_accumulator<Use> && rows == 16 && columns == 16)
      return {(lane >> 2) + ((i >> 1) & 1) * 8, (lane & 3) * 2 + (i & 1) + (i >> 2) * 8};
    if (by_ldmatrix) {
      int across = lane & 15, along = (lane >> 4) * 8 + i;
      return by_columns<Layout> ? Place{along, across} : Place{across, along};
    }
    int p = lane * count + i;
    if (by_columns<Layout>) return {p % rows, p / rows};
    return {p / columns, p % columns};
  }
};

template <class E>
struct Held {
  typename E::type x[E::count];
};

// Copies, made and taken by the lane itself: where a fragment does not lie in registers, that is an access.
template <class D, class A, class B, class C>
struct Operands {
  Held<D> d;
  Held<A> a;
  Held<B> b;
  Held<C> c;
};

// The type of an accumulator -> in which it is summed; integers wrap around.
template <class T>
struct Summed {
  typedef float type;
};
template <>
struct Summed<int> {
  typedef unsigned type;
};
template <>
struct Summed<double> {
  typedef double type;
};

template <class T>
SIMT_UNTRACED void matrix_multiply(const T* a, const T* b, T* c, int rows, int columns, int depth) {
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++)
      for (int k = 0; k < depth; k++) c[i * columns + j] += a[i * depth + k] * b[j * depth + k];
}
SIMT_UNTRACED inline void matrix_multiply(const float* a, const float* b, float* c, int rows, int columns,
                                          int depth) {
  simt_matrix_multiply(a, b, c, rows, columns, depth);
}

template <int M, int N, int K, class D, class A, class B, class C>
SIMT_UNTRACED void combine_wmma(void** payloads, unsigned, unsigned) {
  typedef Operands<D, A, B, C> Lane;
  typedef typename Summed<typename D::type>::type T;
  T a[M * K], b[N * K], c[M * N];
  for (int lane = 0; lane < 32; lane++) {
    const Lane& o = *(const Lane*)payloads[lane];
    for (int i = 0; i < A::count; i++) {
      Place at = A::place(lane, i);
      a[at.row * K + at.column] = (T)o.a.x[i];
    }
    for (int i = 0; i < B::count; i++) {
      Place at = B::place(lane, i);
      b[at.column * K + at.row] = (T)o.b.x[i];
    }
    for (int i = 0; i < C::count; i++) {
      Place at = C::place(lane, i);
      c[at.row * N + at.column] = (T)o.c.x[i];
    }
  }
  matrix_multiply(a, b, c, M, N, K);
  for (int lane = 0; lane < 32; lane++) {
    Lane& o = *(Lane*)payloads[lane];
    for (int i = 0; i < D::count; i++) {
      Place at = D::place(lane, i);
      o.d.x[i] = (typename D::type)c[at.row * N + at.column];
    }
  }
}
}  // namespace simt

namespace nvcuda {
namespace wmma {

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {
  typedef simt::Elements<Use, M, N, K, T, Layout> simt_elements;
  typedef typename simt_elements::type element_type;
  typedef element_type storage_element_type;
  static constexpr int num_elements = simt_elements::count;
  element_type x[num_elements];
};

template <class Use, int M, int N, int K, class T, class Layout, class Value>
SIMT_INLINE void fill_fragment(fragment<Use, M, N, K, T, Layout>& f, Value value) {
  for (int i = 0; i < f.num_elements; i++) f.x[i] = (typename simt::Stored<T>::type)value;
}

}  // namespace wmma
}  // namespace nvcuda

namespace simt {
template <class Fragment, class P>
SIMT_INLINE void load_elements(Fragment& f, const P* p, unsigned stride, bool columns) {
  typedef typename Fragment::simt_elements Elements;
  __syncwarp();
  auto index = [&](int i) {
    Place at = Elements::place(simt_lane(), i);
    return columns ? at.column * stride + at.row : at.row * stride + at.column;
  };
  if constexpr (Elements::by_ldmatrix) {
    simt_bits16 eight = *(const simt_bits16*)(p + index(0));
    __builtin_memcpy(f.x, &eight, sizeof eight);
  } else {
    for (int i = 0; i < Elements::count; i++) f.x[i] = p[index(i)];
  }
}
}  // namespace simt

namespace nvcuda {
namespace wmma {

template <class Use, int M, int N, int K, class T, class Layout, class P>
SIMT_INLINE void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& f, const P* p, unsigned stride) {
  simt::load_elements(f, p, stride, simt::by_columns<Layout>);
}
template <int M, int N, int K, class T, class P>
SIMT_INLINE void load_matrix_sync(fragment<accumulator, M, N, K, T>& f, const P* p, unsigned stride,
                                  layout_t layout) {
  simt::load_elements(f, p, stride, layout == mem_col_major);
}
template <int M, int N, int K, class T, class P>
SIMT_INLINE void store_matrix_sync(P* p, const fragment<accumulator, M, N, K, T>& f, unsigned stride,
                                   layout_t layout) {
  __syncwarp();
  for (int i = 0; i < f.num_elements; i++) {
    simt::Place at = fragment<accumulator, M, N, K, T>::simt_elements::place(simt_lane(), i);
    p[layout == mem_col_major ? at.column * stride + at.row : at.row * stride + at.column] = f.x[i];
  }
}

template <int M, int N, int K, class TD, class TA, class LA, class TB, class LB, class TC>
SIMT_INLINE void mma_sync(fragment<accumulator, M, N, K, TD>& d, const fragment<matrix_a, M, N, K, TA, LA>& a,
                          const fragment<matrix_b, M, N, K, TB, LB>& b,
                          const fragment<accumulator, M, N, K, TC>& c) {
  typedef simt::Elements<accumulator, M, N, K, TD, void> D;
  typedef simt::Elements<matrix_a, M, N, K, TA, LA> A;
  typedef simt::Elements<matrix_b, M, N, K, TB, LB> B;
  typedef simt::Elements<accumulator, M, N, K, TC, void> C;
  simt::Operands<D, A, B, C> mine{
      {}, (const simt::Held<A>&)a, (const simt::Held<B>&)b, (const simt::Held<C>&)c};
  simt_collective("wmma::mma_sync", 0xffffffffu, &mine, &simt::combine_wmma<M, N, K, D, A, B, C>);
  (simt::Held<D>&)d = mine.d;
}

SIMT_INLINE float __float_to_tf32(float f) {
  return __uint_as_float((__float_as_uint(f) + 0x1000u) & 0xffffe000u);
}

}  // namespace wmma
}  // namespace nvcuda
