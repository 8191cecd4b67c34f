# tries: while loops over the blocks of a row, with a break by condition
# exercise: 12_online_softmax/online_softmax
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def online_kernel(x_ptr, y_ptr, N, stride_x, stride_y, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    m = -float("inf")
    l = 0.0
    start = 0
    while start < N:
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride_x + offs, mask=offs < N, other=-float("inf")).to(tl.float32)
        m_new = tl.maximum(m, tl.max(x, 0))
        shift = tl.where(m_new == -float("inf"), 0.0, m_new)
        l = l * tl.exp(m - shift) + tl.sum(tl.exp(x - shift), 0)
        m = m_new
        start += BLOCK
    while start > 0:
        start -= BLOCK
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride_x + offs, mask=offs < N).to(tl.float32)
        tl.store(y_ptr + row * stride_y + offs, tl.exp(x - m) / l, mask=offs < N)


def online_softmax(x, out):
    M, N = x.shape
    online_kernel[(M,)](x, out, N, x.stride(0), out.stride(0), BLOCK=2048)
