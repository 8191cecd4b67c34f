# expect: race
# Two programs add into the same block, and nothing orders them.
import triton
import triton.language as tl


@triton.jit
def vector_add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    part = tl.load(x_ptr + offs, mask=mask) if tl.program_id(1) == 0 else tl.load(y_ptr + offs, mask=mask)
    total = tl.load(out_ptr + offs, mask=mask)
    tl.store(out_ptr + offs, total + part, mask=mask)


def vector_add(x, y, out):
    n = x.numel()
    BLOCK = 1024
    out.zero_()
    vector_add_kernel[(triton.cdiv(n, BLOCK), 2)](x, y, out, n, BLOCK=BLOCK)
