# expect: off-by-one
# Stores one element too far.
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n - 1
    x = tl.load(x_ptr + offs, mask=mask)
    x = x.to(tl.float32)
    a = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    y = x / (1 + tl.exp(-2 * a))
    tl.store(out_ptr + offs + 1, y, mask=mask)


def gelu(x, out):
    n = x.numel()
    BLOCK = 1024
    gelu_kernel[(triton.cdiv(n, BLOCK),)](x, out, n, BLOCK=BLOCK)
