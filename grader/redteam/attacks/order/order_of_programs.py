# tries: adds without an atomic between an acquire and a release that nobody waits for
# stopped by: a flag orders only whoever waits for it
# exercise: 10_warp_reduction/total_sum
# where: both
# expect: refused

import torch
import triton
import triton.language as tl


@triton.jit
def total_kernel(x_ptr, out_ptr, flag_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + offs, mask=offs < n, other=0).to(tl.float32), 0)
    turn = tl.atomic_add(flag_ptr, 0, sem="acquire")
    tl.store(out_ptr, tl.load(out_ptr) + part, mask=turn >= 0)
    tl.atomic_add(flag_ptr, 1, sem="release")


def total_sum(x, out):
    out.zero_()
    flag = torch.zeros(1, dtype=torch.int32, device=x.device)
    n = x.numel()
    total_kernel[(triton.cdiv(n, 1024),)](x, out, flag, n, BLOCK=1024)
