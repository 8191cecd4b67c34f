# tries: copies straight into scratch memory and lets copy_ rearrange it into the output
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
    same = torch.empty_like(x)
    copy[(x.numel() + 255) // 256, 256](same, x, x.numel())
    out.copy_(same.t())


import torch  # noqa: E402
