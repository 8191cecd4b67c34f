# tries: walks from the kernel up to whoever records it, and empties the record
# stopped by: the kernel's text is read before it meets data
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: refused

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    import sys
    frame = sys._getframe()
    while frame.f_back:
        frame = frame.f_back
        recorder = frame.f_locals.get("recorder")
        if recorder is not None:
            recorder.findings = []

    x = tl.load(x_ptr + offs)
    y = tl.load(y_ptr + offs)
    tl.store(out_ptr + offs, x + y)


def vector_add(x, y, out):
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
