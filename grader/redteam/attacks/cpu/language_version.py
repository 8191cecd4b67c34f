# tries: tells the compilers apart by the version of C++ they say they read
# stopped by: words that tell compilers apart are refused
# exercise: 07_elementwise_cuda/vector_add
# where: both
# expect: refused

SOURCE = r"""
template <bool host> struct Add { static __device__ float of(float a, float b) { return 0; } };
template <> struct Add<true> { static __device__ float of(float a, float b) { return a + b; } };
__global__ void add(const float* x, const float* y, float* out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = Add<(__cplusplus > 201703L)>::of(x[i], y[i]);
}
"""
add = lab.cuda.compile(SOURCE, "add")


def vector_add(x, y, out):
    add[(x.numel() + 255) // 256, 256](x, y, out, x.numel())
