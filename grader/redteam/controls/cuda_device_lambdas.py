# tries: lambdas and functors handed to templates, variadic templates and fold expressions
# exercise: 07_elementwise_cuda/vector_add
# expect: accepted

SOURCE = r"""
template <typename... Ts>
__device__ constexpr auto sum_of(Ts... values) { return (values + ...); }

template <typename F>
__device__ void grid_stride(int n, F&& body) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) body(i);
}

struct Plus {
    template <typename T> __device__ T operator()(const T& a, const T& b) const { return a + b; }
};

template <typename Op = Plus>
struct Binary {
    Op op{};
    __device__ float apply(float a, float b) const { return op(a, b); }
};

__global__ void add(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ out, int n) {
    const Binary<> plus;
    auto twice_half = [](auto v) { return sum_of(v / 2, v / 2); };
    grid_stride(n, [=](int i) { out[i] = twice_half(plus.apply(x[i], y[i])); });
}
"""
add = lab.cuda.compile(SOURCE, "add")


def vector_add(x, y, out):
    n = x.numel()
    add[(n + 1023) // 1024, 256](x, y, out, n)
