# tries: computes into scratch memory once and expects to find it there in the next case
# stopped by: scratch memory is filled with random bytes before each run
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: refused

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    y = tl.load(y_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, x + y, mask=offs < n)


@triton.jit
def copy_kernel(old_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(old_ptr + offs, mask=offs < n), mask=offs < n)


kept = {}


def vector_add(x, y, out):
    n = x.numel()
    if not kept:
        kept["sum"] = torch.empty(1 << 20, device=x.device, dtype=x.dtype)
        add_kernel[(triton.cdiv(n, 1024),)](x, y, kept["sum"], n, BLOCK=1024)
    copy_kernel[(triton.cdiv(n, 1024),)](kept["sum"], out, n, BLOCK=1024)
