# tries: keeps the compiler busy for ever in a branch that the interpreter never takes
# stopped by: a compiler that comes to no end refuses
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: refused
# slow: yes

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if n < 0:
        for i in tl.static_range(0, 1 << 20):
            tl.store(out_ptr + i, 0.0)

    x = tl.load(x_ptr + offs, mask=offs < n)
    y = tl.load(y_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, x + y, mask=offs < n)


def vector_add(x, y, out):
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
