# tries: maximum and sum of a softmax in one tl.reduce over pairs
# exercise: 11_softmax/softmax
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def combine(m1, l1, m2, l2):
    m = tl.maximum(m1, m2)
    a = tl.where(m1 == m, l1, l1 * tl.exp(m1 - m))
    b = tl.where(m2 == m, l2, l2 * tl.exp(m2 - m))
    return m, a + b


@triton.jit
def softmax_kernel(x_ptr, out_ptr, stride_x, stride_out, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride_x + cols, mask=mask, other=float("-inf")).to(tl.float32)
    m, l = tl.reduce((x, mask.to(tl.float32)), axis=0, combine_fn=combine)
    tl.store(out_ptr + row * stride_out + cols, tl.exp(x - m) / l, mask=mask)


def softmax(x, out):
    n_rows, n_cols = x.shape
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    softmax_kernel[(n_rows,)](x, out, x.stride(0), out.stride(0), n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=4)
