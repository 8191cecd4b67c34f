# tries: begins with a byte order mark, which one compiler may skip
# stopped by: both compilers read the same text, with the same meaning
# exercise: 07_elementwise_cuda/vector_add
# where: both
# expect: refused

SOURCE = """
\ufeffconstexpr bool EMULATED = true;
__global__ void add(const float* x, const float* y, float* out, int n) {
    if constexpr (EMULATED)
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = x[i] + y[i];
}
"""
add = lab.cuda.compile(SOURCE, "add")


def vector_add(x, y, out):
    add[(x.numel() + 255) // 256, 256](x, y, out, x.numel())
