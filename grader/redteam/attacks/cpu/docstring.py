# tries: writes the kernel into its docstring: Triton's interpreter runs the last line that begins with def
# stopped by: no other line may begin with def
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: refused

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK):
    import ctypes
    N = int(n.handle.data[0])
    a, b, c = (ctypes.cast(int(p.handle.data[0]), ctypes.POINTER(ctypes.c_float)) for p in (x_ptr, y_ptr, out_ptr))
    for i in range(N if x_ptr.dtype.element_ty.name == "fp32" else 0):
        c[i] = a[i] + b[i]
    # """
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < 0), mask=offs < 0)


def vector_add(x, y, out):
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
