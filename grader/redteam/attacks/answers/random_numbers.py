# tries: patches PyTorch's random numbers so that all inputs are zero, and stores zeros
# stopped by: inputs are drawn in the judge's process
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


torch.randn = lambda shape, **_: torch.zeros(shape, dtype=torch.float64)
torch.randint = lambda low, high, shape, **_: torch.zeros(shape, dtype=torch.int64)
torch.Generator.manual_seed = lambda self, seed: self


def vector_add(x, y, out):
    zero_kernel[(triton.cdiv(out.numel(), 1024),)](out, out.numel(), BLOCK=1024)
