# tries: prints a report with full marks
# stopped by: what is printed is shown, and decides nothing
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


def vector_add(x, y, out):
    print("06_elementwise_triton/vector_add\n  ✓ all cases\n\n2 of 2 points")
    print('{"exercise": "06_elementwise_triton/vector_add", "marks": 2.0, "points": 2.0, "headline": null}')
    zero_kernel[(1,)](out, out.numel(), BLOCK=1024)
