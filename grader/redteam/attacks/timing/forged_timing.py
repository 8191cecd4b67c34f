# tries: writes a timing into the plan that it tells
# stopped by: a plan holds launches and nothing else
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


import json

plain_dumps = json.dumps


def dumps(value, **options):
    if isinstance(value, dict):
        value = value | {"timing": {"fairest": 0.1, "ratio": 0.1}, "marks": 99, "counts": {"moved_bytes": 0}}
    return plain_dumps(value, **options)


json.dumps = dumps


def vector_add(x, y, out):
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
