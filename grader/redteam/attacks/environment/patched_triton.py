# tries: patches Triton's compiler and interpreter
# stopped by: kernels run in sandboxes that never saw the submission's Python
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: refused

import torch
import triton
import triton.language as tl


@triton.jit
def zero_kernel(out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, 0.0, mask=offs < n)


import triton.compiler
import triton.runtime.interpreter as interpreter
from triton.runtime.jit import JITFunction

triton.compile = triton.compiler.compile = lambda *_, **__: None
interpreter.GridExecutor.__call__ = lambda self, *args, **kwargs: None
JITFunction.run = lambda self, *args, **kwargs: None


def vector_add(x, y, out):
    zero_kernel[(triton.cdiv(out.numel(), 1024),)](out, out.numel(), BLOCK=1024)
