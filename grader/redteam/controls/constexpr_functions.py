# tries: functions computed by the compiler, and types as constexpr arguments
# exercise: 11_softmax/softmax
# expect: accepted

import torch
import triton
import triton.language as tl

TYPES = {torch.float16: tl.float16, torch.float32: tl.float32, torch.bfloat16: tl.bfloat16}


@triton.constexpr_function
def lanes_for(n, least):
    size = least
    while size < n:
        size *= 2
    return size


@triton.jit
def softmax_kernel(x_ptr, out_ptr, stride_x, stride_out, N: tl.constexpr, DTYPE: tl.constexpr, FLOOR: tl.constexpr):
    BLOCK: tl.constexpr = lanes_for(N, 16)
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_x + cols, mask=cols < N, other=FLOOR).to(tl.float32)
    e = tl.exp2((x - tl.max(x)) * 1.4426950408889634)
    tl.store(out_ptr + row * stride_out + cols, (e / tl.sum(e)).to(DTYPE), mask=cols < N)


def softmax(x, out):
    M, N = x.shape
    softmax_kernel[(M,)](x, out, x.stride(0), out.stride(0), N=N, DTYPE=TYPES[out.dtype], FLOOR=float("-inf"))
