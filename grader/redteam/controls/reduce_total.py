# tries: a reduction with a function of one's own over 8192 lanes, the partial sums in a second launch
# exercise: 10_warp_reduction/total_sum
# expect: accepted

import torch
import triton
import triton.language as tl


@triton.jit
def _sum_combine(a, b):
    return a + b


@triton.jit
def partial_kernel(x_ptr, partial_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(axis=0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0)
    tl.store(partial_ptr + pid, tl.reduce(x, 0, _sum_combine))


def total_sum(x, out):
    n, BLOCK = x.numel(), 8192
    while True:
        count = triton.cdiv(n, BLOCK)
        y = out.view(1) if count == 1 else torch.empty(count, device=x.device, dtype=torch.float32)
        partial_kernel[(count,)](x, y, n, BLOCK=BLOCK, num_warps=8)
        if count == 1:
            return
        x, n = y, count
