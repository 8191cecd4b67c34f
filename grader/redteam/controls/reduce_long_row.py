# tries: a reduction with a function of one's own over thousands of lanes
# exercise: 10_warp_reduction/row_sum
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, stride, N, BLOCK_N: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < N, other=0.0).to(tl.float32)
    tl.store(out_ptr + row, tl.reduce(x, axis=0, combine_fn=add))


def row_sum(x, out):
    M, N = x.shape
    row_sum_kernel[(M,)](x, out, x.stride(0), N, BLOCK_N=max(2048, triton.next_power_of_2(N)), num_warps=8)
