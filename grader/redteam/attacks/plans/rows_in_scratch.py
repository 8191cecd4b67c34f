# tries: transposes row by row, with a copy for each
# stopped by: a copy may align or pad, and nothing else
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
    """A copy of one row knows no order: rows of the input go to columns of the scratch."""
    M, N = x.shape
    source, other = torch.empty(M * N, dtype=x.dtype, device=x.device), torch.empty(M * N, dtype=x.dtype, device=x.device)
    copy[(M * N + 255) // 256, 256](source, x, M * N)
    rows = M <= N
    for k in range(min(M, N)):
        to, of = ((k, M), (k * N, 1)) if rows else ((k * M, 1), (k, N))
        other.as_strided((max(M, N),), to[1:], to[0]).copy_(source.as_strided((max(M, N),), of[1:], of[0]))
    copy[(M * N + 255) // 256, 256](out, other, M * N)
