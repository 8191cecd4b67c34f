# tries: libdevice's exp, by an alias of the module
# exercise: 11_softmax/softmax
# expect: accepted

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def softmax_kernel(x_ptr, out_ptr, stride_x, stride_out, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride_x + cols, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = libdevice.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * stride_out + cols, numerator / tl.sum(numerator, axis=0), mask=mask)


def softmax(x, out):
    n_rows, n_cols = x.shape
    softmax_kernel[(n_rows,)](x, out, x.stride(0), out.stride(0), n_cols, BLOCK_SIZE=triton.next_power_of_2(n_cols))
