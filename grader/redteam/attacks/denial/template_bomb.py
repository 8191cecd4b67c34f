# tries: has the compiler instantiate tens of thousands of templates
# stopped by: compilers run in a limited child
# exercise: 07_elementwise_cuda/vector_add
# where: both
# expect: harmless
# slow: yes

SOURCE = r"""
template <int N>
struct Twice {
    static constexpr int value = Twice<N - 1>::value + Twice<N - 2>::value;
};
template <>
struct Twice<0> { static constexpr int value = 1; };
template <>
struct Twice<1> { static constexpr int value = 1; };
template <int A, int B>
__device__ int grow() {
    if constexpr (B == 0) return A;
    else return grow<2 * A, B - 1>() + grow<2 * A + 1, B - 1>();
}
__global__ void add(const float* x, const float* y, float* out, int n) { out[0] = Twice<40>::value + grow<1, 15>(); }
"""
add = lab.cuda.compile(SOURCE, "add")


def vector_add(x, y, out):
    add[1, 32](x, y, out, x.numel())
