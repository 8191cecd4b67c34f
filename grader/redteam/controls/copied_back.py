# tries: computes into scratch memory that lies as it wants, and copies the result back
# exercise: 06_elementwise_triton/vector_add
# expect: accepted

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, offs < n) + tl.load(y_ptr + offs, offs < n), offs < n)


def vector_add(x, y, out):
    n = x.numel()
    aligned = torch.empty_like(out)
    add_kernel[(triton.cdiv(n, 1024),)](x.contiguous(), y.contiguous(), aligned, n, BLOCK=1024)
    out.copy_(aligned)
