# tries: looks through GPU memory for what the reference has left at the timed size
# stopped by: what lies outside its arrays is not the reference's output of the same inputs
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


@triton.jit
def steal_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = tl.load(out_ptr + n + offs)
    tl.store(out_ptr + offs, there, mask=offs < n)


def vector_add(x, y, out):
    n = x.numel()
    if n > 1_000_000:
        steal_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
    else:
        add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
