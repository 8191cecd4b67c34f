# tries: inline PTX in a branch that a machine without a GPU does not take
# exercise: 06_elementwise_triton/vector_add
# expect: accepted

import torch
import triton
import triton.language as tl

USE_PTX = torch.cuda.is_available()


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr, USE_PTX: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    y = tl.load(y_ptr + offs, mask=mask).to(tl.float32)
    if USE_PTX:
        total = tl.inline_asm_elementwise("add.rn.f32 $0, $1, $2;", "=f,f,f", [x, y], tl.float32, True, 1)
    else:
        total = x + y
    tl.store(out_ptr + offs, total, mask=mask)


def vector_add(x, y, out):
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024, USE_PTX=USE_PTX)
