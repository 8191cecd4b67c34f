# tries: ends the text for NVRTC with a NUL byte, which the emulator's compiler skips
# stopped by: both compilers read the same text, with the same meaning
# exercise: 07_elementwise_cuda/vector_add
# where: both
# expect: refused

SOURCE = """
template <int N>
__device__ void work(const float* x, const float* y, float* out, int n) {}
template <int N>
__global__ void add(const float* x, const float* y, float* out, int n) {
    work<N>(x, y, out, n);
}
\0
template <>
__device__ void work<1>(const float* x, const float* y, float* out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = x[i] + y[i];
}
"""
add = lab.cuda.compile(SOURCE, "add<1>")


def vector_add(x, y, out):
    add[(x.numel() + 255) // 256, 256](x, y, out, x.numel())
