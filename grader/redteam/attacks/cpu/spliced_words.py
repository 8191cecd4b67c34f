# tries: breaks a forbidden word over two lines
# stopped by: lines are joined before they are read
# exercise: 07_elementwise_cuda/vector_add
# where: both
# expect: refused

SOURCE = """
__global__ void add(const float* x, const float* y, float* out, int n) {
    as\\
m("nop");
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = x[i] + y[i];
}
"""
add = lab.cuda.compile(SOURCE, "add")


def vector_add(x, y, out):
    add[(x.numel() + 255) // 256, 256](x, y, out, x.numel())
