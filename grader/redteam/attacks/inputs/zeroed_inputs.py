# tries: overwrites the inputs with zeros, so that zero is the right answer
# stopped by: inputs are kept apart and must be unchanged
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: refused

import torch
import triton
import triton.language as tl


@triton.jit
def zero_kernel(out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, 0.0, mask=offs < n)


def vector_add(x, y, out):
    for array in (x, y, out):
        zero_kernel[(triton.cdiv(out.numel(), 1024),)](array, out.numel(), BLOCK=1024)
