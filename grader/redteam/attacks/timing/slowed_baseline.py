# tries: makes what it is compared with slow
# stopped by: the reference solution runs in the runner
# exercise: 06_elementwise_triton/vector_add
# where: both
# expect: no effect
# baseline: full

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    y = tl.load(y_ptr + offs, mask=offs < n)
    tl.store(out_ptr + offs, x + y, mask=offs < n)


import time

import labutils.timing.benchmark
import labutils.timing.stopwatch

plain_add = torch.add


def slow_add(*args, **kwargs):
    time.sleep(0.5)
    return plain_add(*args, **kwargs)


torch.add = slow_add
labutils.timing.stopwatch.time = type("Clock", (), {"perf_counter": staticmethod(lambda: 0.0)})


def vector_add(x, y, out):
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
