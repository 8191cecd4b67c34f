# tries: launches a kernel that cannot work and lets PyTorch do it in the except clause
# stopped by: PyTorch may not compute in a launcher
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: refused

import torch
import triton
import triton.language as tl


@triton.jit
def broken_kernel(x_ptr):
    tl.store(x_ptr + tl.arange(0, 3), 0.0)


def vector_add(x, y, out):
    try:
        broken_kernel[(1, 2, 3, 4)](x)
    except Exception:
        out.copy_(x + y)
