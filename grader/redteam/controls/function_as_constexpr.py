# tries: the activation is a function that the launcher passes to the kernel
# exercise: 06_elementwise_triton/gelu
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def tanh_gelu(x):
    return x * tl.sigmoid(1.5957691216057308 * x * (1 + 0.044715 * x * x))


@triton.jit
def elementwise(x_ptr, out_ptr, n, FN: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, FN(x.to(tl.float32)), mask=offs < n)


def unary(fn):
    def launcher(x, out):
        n = x.numel()
        elementwise[(triton.cdiv(n, 1024),)](x, out, n, FN=fn, BLOCK=1024)

    return launcher


gelu = unary(tanh_gelu)
