# tries: reads and writes memory by its address, past every record
# stopped by: the kernel's text is read before it meets data
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: refused

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    import ctypes
    a, b, c = (ctypes.cast(int(p.handle.data[0]), ctypes.POINTER(ctypes.c_float)) for p in (x_ptr, y_ptr, out_ptr))
    for i in range(int(n.handle.data[0])):
        c[i] = a[i] + b[i]


def vector_add(x, y, out):
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
