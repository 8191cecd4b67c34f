# expect: input-overwritten
# Writes the result over dy too.
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
    a = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    slope = 0.7978845608028654 * (1 + 3 * 0.044715 * x * x)
    t = 2 * tl.sigmoid(2 * a) - 1
    dx = dy * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope)
    tl.store(dy_ptr + offs, dx, mask=mask)
    tl.store(dx_ptr + offs, dx, mask=mask)


def gelu_backward(x, dy, dx):
    n = x.numel()
    BLOCK = 1024
    gelu_backward_kernel[(triton.cdiv(n, BLOCK),)](x, dy, dx, n, BLOCK=BLOCK)
