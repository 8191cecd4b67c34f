# expect: returned
# Fills an array of its own and returns that.
import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, factor, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    tl.store(out_ptr + offs, factor * x, mask=mask)


def scale(x, factor, out):
    n = x.numel()
    mine = torch.empty_like(out)
    scale_kernel[(triton.cdiv(n, 1024),)](x, factor, mine, n, BLOCK=1024)
    return mine
