# tries: torch.zeros as scratch memory for atomics, and device and dtype written out
# exercise: 10_warp_reduction/total_sum
# expect: accepted

import torch
import triton
import triton.language as tl


@triton.jit
def add_up_kernel(x_ptr, total_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + offs, mask=offs < n, other=0.0).to(tl.float32), axis=0)
    tl.atomic_add(total_ptr, part)


@triton.jit
def copy_kernel(total_ptr, out_ptr):
    tl.store(out_ptr, tl.load(total_ptr))


def total_sum(x, out):
    total = torch.zeros((1,), device="cuda", dtype=torch.float32)
    add_up_kernel[(triton.cdiv(x.numel(), 2048),)](x, total, x.numel(), BLOCK=2048)
    copy_kernel[(1,)](total, out)
