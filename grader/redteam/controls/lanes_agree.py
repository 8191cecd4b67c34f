# tries: lets every lane store the same sum to one place
# exercise: 10_warp_reduction/row_sum
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, stride_m, N, BLOCK_N: tl.constexpr):
    pid = tl.program_id(0)
    offs_n = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + pid * stride_m + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)
    same = tl.zeros((BLOCK_N,), tl.int32)
    tl.store(out_ptr + pid + same, tl.sum(x, 0) + same.to(tl.float32))


def row_sum(x, out):
    M, N = x.shape
    row_sum_kernel[(M,)](x, out, x.stride(0), N, BLOCK_N=triton.next_power_of_2(N))
