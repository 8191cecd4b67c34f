# expect: accepted
# Another tile: 128 columns at a time.
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, stride_m, N, BLOCK_N: tl.constexpr):
    pid = tl.program_id(0)
    sums = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, N, BLOCK_N):
        offs_n = start + tl.arange(0, BLOCK_N)
        sums += tl.load(x_ptr + pid * stride_m + offs_n, mask=offs_n < N, other=0.0).to(tl.float32)
    tl.store(out_ptr + pid, tl.sum(sums))


def row_sum(x, out):
    M, N = x.shape
    row_sum_kernel[(M,)](x, out, x.stride(0), N, BLOCK_N=128, num_warps=1)
