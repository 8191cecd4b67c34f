# tries: lets .contiguous() rearrange the matrix and copies the result with perfect accesses
# stopped by: a copy rearranges nothing
# exercise: 08_coalescing/transpose
# where: both
# expect: refused

copy = lab.cuda.compile(
    "__global__ void copy(float* out, const float* x, int n) {"
    " int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = x[i]; }",
    "copy",
)


def transpose(x, out):
    turned = x.t().contiguous()
    copy[(x.numel() + 255) // 256, 256](out, turned, x.numel())
