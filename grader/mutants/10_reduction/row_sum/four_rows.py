# expect: accepted
# A program takes four rows.
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, stride_m, M, N, BLOCK_N: tl.constexpr):
    offs_m = tl.program_id(0) * 4 + tl.arange(0, 4)
    offs_n = tl.arange(0, BLOCK_N)
    mask = (offs_m < M)[:, None] & (offs_n < N)[None, :]
    x = tl.load(x_ptr + offs_m[:, None] * stride_m + offs_n[None, :], mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + offs_m, tl.sum(x, axis=1), mask=offs_m < M)


def row_sum(x, out):
    M, N = x.shape
    row_sum_kernel[(triton.cdiv(M, 4),)](x, out, x.stride(0), M, N, BLOCK_N=triton.next_power_of_2(N))
