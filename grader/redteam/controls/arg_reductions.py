# tries: a maximum with its index, min, xor_sum, and keep_dims
# exercise: 11_softmax/softmax
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, M, N, stride_x, stride_o, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.arange(0, BN)
    mask = (rows < M)[:, None] & (cols < N)[None, :]
    x = tl.load(x_ptr + rows[:, None] * stride_x + cols[None, :], mask=mask, other=-float("inf")).to(tl.float32)
    largest, where = tl.max(x, axis=1, return_indices=True, keep_dims=True)
    e = tl.exp(x - tl.where((rows < M)[:, None], largest, 0.0))
    e = tl.where(cols[None, :] == where, 1.0, e)
    y = e / tl.sum(e, axis=1, keep_dims=True)
    tl.store(out_ptr + rows[:, None] * stride_o + cols[None, :], y, mask=mask)


def softmax(x, out):
    M, N = x.shape
    BN = triton.next_power_of_2(N)
    BM = max(1, 1024 // BN)
    softmax_kernel[(triton.cdiv(M, BM),)](x, out, M, N, x.stride(0), out.stride(0), BM=BM, BN=BN)
