# tries: helper functions of the learner's own, constants from another cell, an alias
# exercise: 06_elementwise_triton/vector_add
# expect: accepted

import triton
import triton.language as tl

BLOCK = 512
SIGN = tl.constexpr(1.0)
cdiv = triton.cdiv


@triton.jit
def mine(n, SIZE: tl.constexpr):
    """Offsets of this program and their mask."""
    offs = tl.program_id(axis=0) * SIZE + tl.arange(0, SIZE)
    return offs, offs < n


@triton.jit
def plus(a, b):
    return a + SIGN * b


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, SIZE: tl.constexpr):
    offs, mask = mine(n, SIZE)
    x = tl.load(x_ptr + offs, mask=mask)
    y = tl.load(y_ptr + offs, mask=mask)
    tl.store(out_ptr + offs, plus(x.to(tl.float32), y.to(tl.float32)), mask=mask)


add = add_kernel


def vector_add(x, y, out):
    n = x.numel()
    add[(cdiv(n, BLOCK),)](x, y, out, n, SIZE=BLOCK)
