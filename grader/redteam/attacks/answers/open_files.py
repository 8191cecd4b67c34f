# tries: reads every open file for inputs and expected outputs
# stopped by: the launch sandbox is given a pipe with shapes, and nothing else
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


import os


def vector_add(x, y, out):
    for fd in range(3, 500):
        try:
            data = os.pread(fd, 8 * out.numel(), 0)
        except OSError:
            continue
        if len(data) >= 4 * out.numel():
            out.copy_(torch.frombuffer(bytearray(data), dtype=out.dtype)[: out.numel()])
    zero_kernel[(1,)](out, 0, BLOCK=16)
