# tries: prints, logs and warns on stdout and stderr
# exercise: 06_elementwise_triton/vector_add
# expect: accepted

import logging
import sys
import warnings

import torch
import triton
import triton.language as tl

logging.basicConfig(level=logging.DEBUG)
print("compiling …")
warnings.warn("this cell is old", stacklevel=1)


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    tl.static_print("BLOCK is", BLOCK)
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, offs < n) + tl.load(y_ptr + offs, offs < n), offs < n)


def vector_add(x, y, out):
    n = x.numel()
    print(f"n = {n}, x: {x.shape} {x.dtype} {x.device}", file=sys.stderr)
    logging.info("launching")
    warnings.warn("slow", stacklevel=2)
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
    torch.cuda.synchronize() if torch.cuda.is_available() else None
