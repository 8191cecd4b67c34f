# tries: a helper that is not inlined, and one that returns two values
# exercise: 06_elementwise_triton/gelu_backward
# expect: accepted

import triton
import triton.language as tl


@triton.jit(noinline=True)
def first_offset(pid, size):
    return pid * size


@triton.jit(noinline=False)
def tanh_parts(x):
    a = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    slope = 0.7978845608028654 * (1 + 3 * 0.044715 * x * x)
    return a, slope


@triton.jit
def sigmoid(v):
    return 1 / (1 + tl.exp(-v))


@triton.jit
def gelu_backward_kernel(x_ptr, dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    offs = first_offset(tl.program_id(0), BLOCK) + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + offs, mask=mask, other=0.0).to(tl.float32)
    a, slope = tanh_parts(x)
    s = sigmoid(2 * a)
    tl.store(dx_ptr + offs, dy * (s + 2 * x * s * (1 - s) * slope), mask=mask)


def gelu_backward(x, dy, dx):
    n = x.numel()
    gelu_backward_kernel[(triton.cdiv(n, 512),)](x, dy, dx, n, BLOCK=512)
