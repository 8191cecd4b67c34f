# tries: never computes the last tile, and hopes that its output happens to be right
# stopped by: outputs begin as random bytes
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


def vector_add(x, y, out):
    n = x.numel()
    add_kernel[(max(1, triton.cdiv(n, 256) - 1),)](x, y, out, n, BLOCK=256)
