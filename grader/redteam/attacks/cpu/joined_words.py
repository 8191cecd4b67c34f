# tries: joins forbidden words from harmless halves
# stopped by: no joining of words
# exercise: 07_elementwise_cuda/vector_add
# where: both
# expect: refused

SOURCE = r"""
#define JOIN(a, b) a##b
__global__ void add(const float* x, const float* y, float* out, int n) {
    JOIN(as, m)("nop");
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = x[i] + y[i];
}
"""
add = lab.cuda.compile(SOURCE, "add")


def vector_add(x, y, out):
    add[(x.numel() + 255) // 256, 256](x, y, out, x.numel())
