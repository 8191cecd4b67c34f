# tries: shows the compiler an honest kernel and the interpreter one that no GPU could run
# stopped by: isinstance is no word of a kernel's
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: refused

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if isinstance(BLOCK, tl.constexpr):
        tl.store(out_ptr + offs, 0.0, mask=offs < n)
    else:
        wide = tl.program_id(0) * BLOCK + tl.arange(0, 1000 + 24)
        tl.store(out_ptr + wide, tl.load(x_ptr + wide, mask=wide < n) + tl.load(y_ptr + wide, mask=wide < n), mask=wide < n)


def vector_add(x, y, out):
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
