# tries: adds in fp16 where the contract says fp32
# stopped by: the error model knows the accumulate type
# exercise: 10_warp_reduction/row_sum
# where: both
# expect: refused

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, N, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float16)
    for start in range(0, N, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * stride + offs, mask=offs < N, other=0).to(tl.float16)
    tl.store(out_ptr + row, tl.sum(total, 0))


def row_sum(x, out):
    row_sum_kernel[(x.shape[0],)](x, out, x.shape[1], x.stride(0), BLOCK=256)
