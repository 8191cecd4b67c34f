# tries: replaces every function that could compare, and the course's own checks
# stopped by: comparison happens in a process where none of it runs
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


from labutils.check import diagnose, evaluate

torch.allclose = torch.equal = lambda *_, **__: True
torch.isclose = lambda a, b, **_: torch.ones_like(a, dtype=torch.bool)
diagnose._from_output = lambda *_: []
diagnose._from_guards = lambda *_: []
evaluate.diagnose.examine.__code__ = (lambda run, outcome, hidden=False: None).__code__


def vector_add(x, y, out):
    zero_kernel[(triton.cdiv(out.numel(), 1024),)](out, out.numel(), BLOCK=1024)
