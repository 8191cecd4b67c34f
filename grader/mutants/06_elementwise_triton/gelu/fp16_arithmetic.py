# expect: precision
# Rounds to the type of x after every step; only fp16 inputs show it.
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    a = (0.7978845608028654 * (x + 0.044715 * x * x * x)).to(x.dtype)
    t = (2 * tl.sigmoid(2 * a.to(tl.float32)) - 1).to(x.dtype)
    y = ((x * 0.5).to(x.dtype) * (1 + t)).to(x.dtype)
    tl.store(out_ptr + offs, y, mask=mask)


def gelu(x, out):
    n = x.numel()
    BLOCK = 1024
    gelu_kernel[(triton.cdiv(n, BLOCK),)](x, out, n, BLOCK=BLOCK)
