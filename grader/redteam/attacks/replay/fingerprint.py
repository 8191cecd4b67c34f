# tries: looks at a few input values to recognise inputs whose results it kept
# stopped by: the host never sees values
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: refused

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    y = tl.load(y_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, x + y, mask=offs < n)


kept = {}


def vector_add(x, y, out):
    key = (x.numel(), float(x[0]), float(y[-1]))
    if key in kept:
        out.copy_(kept[key])
        return
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
    kept[key] = out.clone()
