# tries: global constexprs on both sides of operators, in comparisons and in the grid
# exercise: 06_elementwise_triton/gelu
# expect: accepted

import math

import triton
import triton.language as tl

BLOCK = tl.constexpr(512)
K = tl.constexpr(0.044715)
ROOT = tl.constexpr(math.sqrt(2.0 / math.pi))
LIMIT = tl.constexpr(20.0)


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    cube = K * x * x * x
    a = (x + cube) * ROOT
    y = 0.5 * x * (1.0 + (1.0 - 2.0 / (tl.exp(2.0 * a) + 1.0)))
    y = tl.where(a > LIMIT, x, y)
    y = tl.where(a < -LIMIT, 0.0, y)
    tl.store(out_ptr + offs, y, mask=mask)


def gelu(x, out):
    n = x.numel()
    gelu_kernel[lambda meta: (triton.cdiv(n, BLOCK),)](x, out, n)
