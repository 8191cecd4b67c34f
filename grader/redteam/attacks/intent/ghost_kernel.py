# tries: launches a kernel that does nothing beside PyTorch's
# stopped by: PyTorch may not compute in a launcher
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
    torch.add(x, y, out=out)
    zero_kernel[(1,)](out, 0, BLOCK=16)
