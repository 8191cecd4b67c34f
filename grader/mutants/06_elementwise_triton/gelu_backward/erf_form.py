# expect: wrong-formula
# The derivative of the other GeLU.
import triton
import triton.language as tl


@triton.jit
def gelu_backward_kernel(x_ptr, dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    dy = tl.load(dy_ptr + offs, mask=mask)
    x = x.to(tl.float32)
    dy = dy.to(tl.float32)
    cdf = 0.5 * (1 + tl.erf(x * 0.7071067811865476))
    dx = dy * (cdf + x * tl.exp(-0.5 * x * x) * 0.3989422804014327)
    tl.store(dx_ptr + offs, dx, mask=mask)


def gelu_backward(x, dy, dx):
    n = x.numel()
    BLOCK = 1024
    gelu_backward_kernel[(triton.cdiv(n, BLOCK),)](x, dy, dx, n, BLOCK=BLOCK)
