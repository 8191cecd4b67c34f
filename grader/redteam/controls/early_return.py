# tries: programs that return early, annotations as text, clamp and maximum with NaN rules
# exercise: 00_start/scale
# expect: accepted

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, out_ptr, factor, n: tl.int32, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    if pid * BLOCK >= n:
        return
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    y = tl.clamp(x * factor, -3.0e38, 3.0e38)
    y = tl.maximum(y, -3.0e38, propagate_nan=tl.PropagateNan.ALL)
    tl.store(out_ptr + offs, y, mask=offs < n)


def scale(x, factor, out):
    n = x.numel()
    scale_kernel[(triton.cdiv(n, 128) + 3,)](x, out, factor, n, BLOCK=128)
