# tries: has the compiler's message name a type whose name has megabytes, which the judge then reads
# stopped by: compilers' messages are cut in the sandbox, and once more before anything reads them
# exercise: 07_elementwise_cuda/vector_add
# where: both
# expect: harmless

SOURCE = r"""
template <class A, class B>
struct Pair {};
template <int N>
struct Twice { using type = Pair<typename Twice<N - 1>::type, typename Twice<N - 1>::type>; };
template <>
struct Twice<0> { using type = int; };
__global__ void add(const float* x, const float* y, float* out, int n) {
    typename Twice<20>::type pair;
    pair.missing();
}
"""
add = lab.cuda.compile(SOURCE, "add")


def vector_add(x, y, out):
    add[1, 32](x, y, out, x.numel())
