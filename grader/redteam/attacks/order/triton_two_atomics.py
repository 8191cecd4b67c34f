# tries: reads the total with one atomic and writes it with another
# stopped by: a value that an atomic read may be old when another writes it
# exercise: 10_warp_reduction/total_sum
# where: both
# expect: refused

import torch
import triton
import triton.language as tl


@triton.jit
def total_kernel(x_ptr, sum_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + offs, mask=offs < n, other=0).to(tl.float32), 0)
    before = tl.atomic_add(sum_ptr, 0.0)
    tl.atomic_xchg(sum_ptr, before + part)


@triton.jit
def round_kernel(sum_ptr, out_ptr):
    tl.store(out_ptr, tl.load(sum_ptr))


def total_sum(x, out):
    total = torch.zeros(1, dtype=torch.float32, device=x.device)
    n = x.numel()
    total_kernel[(triton.cdiv(n, 1024),)](x, total, n, BLOCK=1024)
    round_kernel[(1,)](total, out)
