# tries: keeps a running total in a Python list, which only an interpreter has
# stopped by: only names can be assigned to
# exercise: 10_warp_reduction/total_sum
# where: both
# expect: refused

import torch
import triton
import triton.language as tl


KEPT = [0.0]


@triton.jit
def total_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    KEPT[0] = KEPT[0] + tl.sum(tl.load(x_ptr + offs, mask=offs < n, other=0).to(tl.float32), 0)
    if tl.program_id(0) == tl.num_programs(0) - 1:
        tl.store(out_ptr, KEPT[0])


def total_sum(x, out):
    total_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
