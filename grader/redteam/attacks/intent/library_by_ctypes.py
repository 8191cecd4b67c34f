# tries: works on the arrays' addresses with the host's own functions
# stopped by: arrays in the launch sandbox have no memory
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


import ctypes


def vector_add(x, y, out):
    n = x.numel()
    a, b, c = (ctypes.cast(t.data_ptr(), ctypes.POINTER(ctypes.c_float)) for t in (x, y, out))
    for i in range(n):
        c[i] = a[i] + b[i]
    zero_kernel[(1,)](out, 0, BLOCK=16)
