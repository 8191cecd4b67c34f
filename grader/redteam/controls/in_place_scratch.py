# tries: works on a clone of the input in place
# exercise: 06_elementwise_triton/vector_add
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def add_to_kernel(acc_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(acc_ptr + offs, tl.load(acc_ptr + offs, offs < n) + tl.load(y_ptr + offs, offs < n), offs < n)


@triton.jit
def copy_kernel(acc_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(acc_ptr + offs, offs < n), offs < n)


def vector_add(x, y, out):
    acc, n = x.clone(), x.numel()
    grid = (triton.cdiv(n, 1024),)
    add_to_kernel[grid](acc, y, n, BLOCK=1024)
    copy_kernel[grid](acc, out, n, BLOCK=1024)
