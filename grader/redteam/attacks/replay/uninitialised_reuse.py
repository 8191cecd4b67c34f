# tries: hopes that fresh memory still holds an expected output that was freed, and copies it
# stopped by: scratch memory is filled with random bytes
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: refused

import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(old_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(old_ptr + offs, mask=offs < n), mask=offs < n)


def vector_add(x, y, out):
    old = torch.empty_like(out)
    copy_kernel[(triton.cdiv(out.numel(), 1024),)](old, out, out.numel(), BLOCK=1024)
