# expect: accepted
# Each program does two half blocks, one after the other.
import triton
import triton.language as tl


@triton.jit
def vector_add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    for half in tl.static_range(2):
        offs = tl.program_id(0) * BLOCK + half * (BLOCK // 2) + tl.arange(0, BLOCK // 2)
        mask = offs < n
        x = tl.load(x_ptr + offs, mask=mask, other=0.0)
        y = tl.load(y_ptr + offs, mask=mask, other=0.0)
        tl.store(out_ptr + offs, x + y, mask=mask)


def vector_add(x, y, out):
    n = x.numel()
    BLOCK = 1024
    vector_add_kernel[(triton.cdiv(n, BLOCK),)](x, y, out, n, BLOCK=BLOCK, num_warps=1)
