# tries: templates over types and numbers, and a namespace
# exercise: 07_elementwise_cuda/vector_add
# expect: accepted

SOURCE = r"""
namespace detail {
template <typename T, int WIDTH>
struct Chunk {
    T at[WIDTH];
};
}  // namespace detail

template <typename T>
__device__ __forceinline__ T plus(T a, T b) { return a + b; }

template <int THREADS>
__global__ void __launch_bounds__(THREADS) add(const float* __restrict__ x, const float* __restrict__ y,
                                               float* __restrict__ out, const int n) {
    const int stride = gridDim.x * THREADS;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += stride) out[i] = plus<float>(x[i], y[i]);
}
"""
add = lab.cuda.compile(SOURCE, "add<128>")


def vector_add(x, y, out):
    n = x.numel()
    add[(n + 127) // 128, 128](x, y, out, n)
