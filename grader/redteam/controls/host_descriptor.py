# tries: tensor descriptors made by the launcher
# exercise: 00_start/scale
# expect: accepted

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def scale_kernel(x, out, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK
    out.store([at], (x.load([at]) * factor).to(out.dtype))


@triton.jit
def plain_kernel(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, offs < n) * factor, offs < n)


def scale(x, factor, out):
    n = x.numel()
    if n % 8 == 0 and x.data_ptr() % 16 == 0 and out.data_ptr() % 16 == 0:
        views = [TensorDescriptor(t, [n], [1], [256]) for t in (x, out)]
        scale_kernel[(triton.cdiv(n, 256),)](*views, factor, BLOCK=256)
    else:
        plain_kernel[(triton.cdiv(n, 256),)](x, out, n, factor, BLOCK=256)
