# tries: an addition in inline PTX
# exercise: 06_elementwise_triton/vector_add
# expect: accepted
# without a gpu: needs-gpu

import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    y = tl.load(y_ptr + offs, mask=mask).to(tl.float32)
    total = tl.inline_asm_elementwise(
        asm="add.f32 $0, $1, $2;", constraints="=r,r,r", args=[x, y], dtype=tl.float32, is_pure=True, pack=1
    )
    tl.store(out_ptr + offs, total, mask=mask)


def vector_add(x, y, out):
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
