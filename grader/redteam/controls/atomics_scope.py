# tries: atomics with order and scope, on a scalar and on a block
# exercise: 10_warp_reduction/total_sum
# expect: accepted

import torch
import triton
import triton.language as tl


@triton.jit
def lanes_kernel(x_ptr, lanes_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.atomic_add(lanes_ptr + tl.arange(0, BLOCK), x, mask=offs < n, sem="relaxed", scope="gpu")


@triton.jit
def finish_kernel(lanes_ptr, out_ptr, BLOCK: tl.constexpr):
    total = tl.sum(tl.load(lanes_ptr + tl.arange(0, BLOCK)))
    tl.atomic_xchg(out_ptr, total, sem="acq_rel", scope="gpu")


def total_sum(x, out):
    n = x.numel()
    lanes = x.new_zeros(512)
    lanes_kernel[(triton.cdiv(n, 512),)](x, lanes, n, BLOCK=512)
    finish_kernel[(1,)](lanes, out, BLOCK=512)
    assert lanes.dtype == torch.float32
