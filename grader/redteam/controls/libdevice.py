# tries: a function of CUDA's own library, in a branch that the machine at hand can compile
# exercise: 06_elementwise_triton/vector_add
# expect: accepted

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr, EXACT: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, offs < n)
    y = tl.load(y_ptr + offs, offs < n)
    if EXACT:
        tl.store(out_ptr + offs, x + y, offs < n)
    else:
        tl.store(out_ptr + offs, libdevice.fma(x, 1.0, y), offs < n)


def vector_add(x, y, out):
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024, EXACT=True)
