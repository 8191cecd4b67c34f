# tries: hides code in what looks like a comment that begins in skipped text
# stopped by: a quotation mark that is not closed is refused
# exercise: 07_elementwise_cuda/vector_add
# where: both
# expect: refused

SOURCE = r"""
#if 0
' /*
#endif
__device__ void hidden() { asm("nop"); }
#if 0
*/ '
#endif
__global__ void add(const float* x, const float* y, float* out, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = x[i] + y[i];
}
"""
add = lab.cuda.compile(SOURCE, "add")


def vector_add(x, y, out):
    add[(x.numel() + 255) // 256, 256](x, y, out, x.numel())
