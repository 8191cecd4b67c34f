# tries: hides code between the apostrophes of two numbers
# stopped by: text is split into words as a compiler does
# exercise: 07_elementwise_cuda/vector_add
# where: both
# expect: refused

SOURCE = r"""
__global__ void add(const float* x, const float* y, float* out, int n) {
    int a = 1'0; asm("nop"); int b = 1'0 + a; (void)b;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = x[i] + y[i];
}
"""
add = lab.cuda.compile(SOURCE, "add")


def vector_add(x, y, out):
    add[(x.numel() + 255) // 256, 256](x, y, out, x.numel())
