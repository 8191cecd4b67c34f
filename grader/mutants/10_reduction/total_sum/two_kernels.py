# expect: accepted
# Partial sums first, then a second launch adds them: the same bits in every run.
import torch
import triton
import triton.language as tl


@triton.jit
def partial_kernel(x_ptr, partial_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(partial_ptr + pid, tl.sum(tl.load(x_ptr + offs, mask=offs < n, other=0.0)))


def total_sum(x, out):
    n, BLOCK = x.numel(), 2048
    while n > BLOCK:
        blocks = triton.cdiv(n, BLOCK)
        partial = torch.empty(blocks, device=x.device)
        partial_kernel[(blocks,)](x, partial, n, BLOCK=BLOCK)
        x, n = partial, blocks
    partial_kernel[(1,)](x, out, n, BLOCK=BLOCK)
