# tries: makes every element of the output the same memory, so that one right element is enough
# stopped by: shape and strides of the output are the judge's own
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: refused

import torch
import triton
import triton.language as tl


@triton.jit
def first_kernel(x_ptr, y_ptr, out_ptr):
    tl.store(out_ptr, tl.load(x_ptr) + tl.load(y_ptr))


def vector_add(x, y, out):
    first_kernel[(1,)](x, y, out)
    out.as_strided_((out.numel(),), (0,))
    x.as_strided_((x.numel(),), (0,))
    y.as_strided_((y.numel(),), (0,))
