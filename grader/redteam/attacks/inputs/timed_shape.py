# tries: leaves out half of the work at the size that is timed
# stopped by: every timed output is verified
# exercise: 06_elementwise_triton/vector_add
# where: gpu
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


def vector_add(x, y, out):
    n = x.numel()
    work = n // 2 if n > 1_000_000 else n
    add_kernel[(triton.cdiv(work, 1024),)](x, y, out, n, BLOCK=1024)
