# tries: patches what records launches, so that a forged kernel is recorded
# stopped by: a recorded kernel is read and run like any other
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


import sys

for module in list(sys.modules.values()):
    plan = getattr(module, "Plan", None)
    if plan is not None and hasattr(plan, "triton"):
        plan.triton = lambda self, *_: {"kernel": 0, "grid": [1], "args": {}}
        plan.to_json = lambda self: {"steps": [{"kernel": 0, "grid": [1], "args": {}}], "specs": [], "scratch": []}


def vector_add(x, y, out):
    zero_kernel[(triton.cdiv(out.numel(), 1024),)](out, out.numel(), BLOCK=1024)
