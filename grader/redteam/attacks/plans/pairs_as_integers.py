# tries: transposes numbers as bytes, by copies between overlapping views
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


def transpose(x, out):
    """The sheared copies once more, of bytes."""
    M, N = x.shape
    one = torch.empty((M + N + 2) * (M + N + 2), dtype=x.dtype, device=x.device)
    other = torch.empty_like(one)
    copy[(M * N + 255) // 256, 256](one, x, M * N)
    of, to = one.view(torch.uint8), other.view(torch.uint8)
    to.as_strided((N, M, 4), (4 * M + 4, 4, 1)).copy_(of.as_strided((N, M, 4), (4 * N + 4, 4 * N, 1)))
    to.as_strided((M, N, 4), (4 * M + 4, 4 * M, 1)).copy_(of.as_strided((M, N, 4), (4 * N + 4, 4, 1)))
    copy[(M * N + 255) // 256, 256](out, other, M * N)
