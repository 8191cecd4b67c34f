# tries: every operator with a global constexpr on the left
# exercise: 06_elementwise_triton/gelu_backward
# expect: accepted

import triton
import triton.language as tl

ROOT: tl.constexpr = tl.constexpr(0.7978845608028654)
CUBIC = tl.constexpr(0.044715)
ONE = tl.constexpr(1.0)
TWO = tl.constexpr(2)
THREE_CUBIC = 3 * CUBIC
BLOCK = tl.constexpr(1024)


@triton.jit
def gelu_backward_kernel(x_ptr, dy_ptr, dx_ptr, n):
    offs = BLOCK * tl.program_id(0) + tl.arange(0, BLOCK)
    mask = n > offs
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    dy = tl.load(dy_ptr + offs, mask=mask).to(tl.float32)
    a = ROOT * (x + CUBIC * x * x * x)
    slope = ROOT * (ONE + THREE_CUBIC * x * x)
    s = ONE / (ONE + tl.exp(-TWO * a))
    dx = dy * (s + TWO * x * s * (ONE - s) * slope)
    tl.store(dx_ptr + offs, dx, mask=mask)


def gelu_backward(x, dy, dx):
    n = x.numel()
    gelu_backward_kernel[(triton.cdiv(n, BLOCK.value),)](x, dy, dx, n)
