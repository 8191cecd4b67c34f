# tries: launchers made with functools.partial and a class with __call__
# exercise: 06_elementwise_triton/vector_add
# expect: accepted

import functools

import triton
import triton.language as tl


@triton.jit
def axpy_kernel(a, x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(out_ptr + offs, a * tl.load(x_ptr + offs, mask) + tl.load(y_ptr + offs, mask), mask)


class Axpy:
    """out = a * x + y"""

    def __init__(self, a, block=512):
        self.a, self.block = a, block

    def __call__(self, x, y, out):
        n = x.numel()
        axpy_kernel[(triton.cdiv(n, self.block),)](self.a, x, y, out, n, BLOCK=self.block)


def launch(op, x, y, out):
    op(x, y, out)


vector_add = functools.partial(launch, Axpy(1.0))
