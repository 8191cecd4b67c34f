# tries: a combine function with a branch, a maximum that ignores NaN
# exercise: 11_softmax/softmax
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def larger(a, b):
    if a > b:
        c = a
    else:
        c = b
    return c


@triton.jit
def softmax_kernel(x_ptr, out_ptr, stride_x, stride_out, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride_x + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    # the maximum of 32 columns each by the function above, of those by tl.max
    e = tl.exp(x - tl.reduce(tl.max(tl.reshape(x, (32, BLOCK // 32)), axis=1), 0, larger))
    tl.store(out_ptr + row * stride_out + cols, e / tl.sum(e), mask=cols < n_cols)


def softmax(x, out):
    n_rows, n_cols = x.shape
    BLOCK = max(32, triton.next_power_of_2(n_cols))
    softmax_kernel[(n_rows,)](x, out, x.stride(0), out.stride(0), n_cols, BLOCK=BLOCK)
