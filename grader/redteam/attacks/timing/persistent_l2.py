# tries: pins the inputs in the L2 cache through the driver
# stopped by: the runner's context sets the limit itself
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: no effect
# baseline: full

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    y = tl.load(y_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, x + y, mask=offs < n)


import contextlib
import ctypes


def vector_add(x, y, out):
    with contextlib.suppress(OSError):
        cuda = ctypes.CDLL("libcuda.so.1")
        cuda.cuInit(0)
        cuda.cuCtxSetLimit(6, 1 << 30)  # CU_LIMIT_PERSISTING_L2_CACHE_SIZE
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
