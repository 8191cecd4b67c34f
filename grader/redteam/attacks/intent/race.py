# tries: adds to the total without an atomic, which is right as long as programs come one after the other
# stopped by: accesses are recorded: two programs touch an element and nothing orders them
# exercise: 10_warp_reduction/total_sum
# where: both
# expect: refused

import torch
import triton
import triton.language as tl


@triton.jit
def total_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + offs, mask=offs < n, other=0).to(tl.float32), 0)
    tl.store(out_ptr, tl.load(out_ptr) + part)


def total_sum(x, out):
    out.zero_()
    n = x.numel()
    total_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
