# tries: a launcher with checks, assertions and try around them
# exercise: 06_elementwise_triton/vector_add
# expect: accepted

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK > 0, "BLOCK must be positive")
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, offs < n) + tl.load(y_ptr + offs, offs < n), offs < n)


def vector_add(x, y, out):
    try:
        assert x.shape == y.shape == out.shape, "shapes differ"
        assert x.is_contiguous() and out.is_contiguous()
        assert x.dtype is out.dtype and x.device == out.device
    except AssertionError as problem:
        raise ValueError(f"vector_add: {problem}") from problem
    with torch.no_grad():
        n = x.numel()
        add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
    return out
