# tries: transposes a matrix of any size by two copies between overlapping views
# stopped by: copies are compared as index maps, and views that overlap are refused
# exercise: 08_coalescing/transpose
# where: both
# expect: refused

import torch

copy = lab.cuda.compile(
    "__global__ void copy(float* out, const float* x, int n) {"
    " int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = x[i]; }",
    "copy",
)


def turned(x, clone):
    """The transpose of a matrix by two copies of overlapping views: a part of it at and below the diagonal each."""
    M, N = x.shape
    one = torch.empty((M + N + 2) * (M + N + 2), dtype=x.dtype, device=x.device)
    other = torch.empty_like(one)
    copy[(M * N + 255) // 256, 256](one, x, M * N)
    clone(other.as_strided((N, M), (M + 1, 1)), one.as_strided((N, M), (N + 1, N)))
    clone(other.as_strided((M, N), (M + 1, M)), one.as_strided((M, N), (N + 1, 1)))
    return other


def transpose(x, out):
    other = turned(x, lambda to, of: to.copy_(of))
    copy[(x.numel() + 255) // 256, 256](out, other, x.numel())
