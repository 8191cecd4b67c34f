# tries: draws the public cases' data again from the seed that learners see, and stores the sums
# stopped by: the judge's seed is another one, and PyTorch may not compute in a launcher
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


from labutils.check.evaluate import PUBLIC_SEED
from labutils.spec.inputs import FILLS, generator


def vector_add(x, y, out):
    g = generator(PUBLIC_SEED, "06_elementwise_triton/vector_add", "one element", [("n", 1)], "x")
    table = FILLS["normal"]((x.numel(),), g, "float32") * 2
    out.copy_(table.to(out.dtype))
    zero_kernel[(1,)](out, 0, BLOCK=16)
