# tries: clones with a shape that hides the rearrangement
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
    M, N = x.shape
    turned = x.as_strided((1, N, M, 1), (N * M, 1, N, 1)).contiguous()
    copy[(x.numel() + 255) // 256, 256](out, turned, x.numel())
