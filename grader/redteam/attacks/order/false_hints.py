# tries: promises the compiler aligned pointers and masks of one value, so that a GPU would load four lanes at once
# stopped by: hints to the compiler are held against the values
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: refused

import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = tl.max_constancy(offs < n, 16)
    x = tl.load(tl.max_contiguous(tl.multiple_of(x_ptr + offs, 16), 16), mask=mask)
    y = tl.load(tl.max_contiguous(tl.multiple_of(y_ptr + offs, 16), 16), mask=mask)
    tl.store(tl.max_contiguous(tl.multiple_of(out_ptr + offs, 16), 16), x + y, mask=mask)


def vector_add(x, y, out):
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
