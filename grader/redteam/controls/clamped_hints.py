# tries: hints about offsets that are clamped, as in Triton's own tutorials
# exercise: 06_elementwise_triton/vector_add
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    start = tl.multiple_of(tl.program_id(0) * BLOCK, BLOCK)
    offs = start + tl.arange(0, BLOCK)
    clamped = tl.max_contiguous(tl.multiple_of(tl.where(offs < n, offs, 0), BLOCK), BLOCK)
    last = tl.max_contiguous(tl.minimum(offs, n - 1), BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + clamped, mask=mask)
    y = tl.load(y_ptr + last, mask=mask)
    tl.store(out_ptr + offs, x + y, mask=mask)


def vector_add(x, y, out):
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
