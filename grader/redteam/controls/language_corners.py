# tries: static loops, tl.math, tuples, where, cast, assume, a docstring in the kernel
# exercise: 06_elementwise_triton/gelu
# expect: accepted

import math

import torch
import triton
import triton.language as tl

C = tl.constexpr(math.sqrt(2 / math.pi))


@triton.jit
def power(x, N: tl.constexpr):
    y = x
    for _ in tl.static_range(N - 1):
        y *= x
    return y


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr = 256, CUBIC: tl.constexpr = 0.044715):
    """GeLU in the tanh form.

    Keeps definitions (of a and of s) apart; "def" in a word such as undefined is no matter.
    """
    tl.assume(n > 0)
    pid: tl.int32 = tl.program_id(0)
    offs = tl.multiple_of(pid * BLOCK, BLOCK) + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.cast(tl.load(x_ptr + offs, mask, other=0.0), tl.float32)
    a = C * tl.fma(power(x, 3), CUBIC, x)
    s = 1.0 / (1.0 + tl.math.exp(-2.0 * a))
    low, high = tl.minimum(s, 1.0), tl.maximum(s, 0.0)
    y = tl.where(x < 0, x * low, x * high)
    if out_ptr.dtype.element_ty == tl.float16:
        tl.store(out_ptr + offs, y.to(tl.float16), mask=mask)
    else:
        tl.store(out_ptr + offs, y.to(out_ptr.dtype.element_ty), mask=mask)


def gelu(x: torch.Tensor, out: torch.Tensor) -> None:
    n: int = x.numel()
    gelu_kernel[(triton.cdiv(n, 256),)](x, out, n)
