# tries: masks the tail for the sizes of the public cases only
# stopped by: hidden cases have other sizes
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


PUBLIC = {1, 2, 3, 1000, 1023, 1024, 1025, 4096, 4097, 10007, 3000, 5000, 2500, 98432, 100_000, 4099}


def vector_add(x, y, out):
    n = x.numel()
    programs = triton.cdiv(n, 1024) if n in PUBLIC else n // 1024
    add_kernel[(programs,)](x, y, out, n, BLOCK=1024)
