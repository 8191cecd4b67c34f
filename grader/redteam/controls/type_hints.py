# tries: a kernel with type hints and a launcher with keyword arguments
# exercise: 06_elementwise_triton/vector_add
# expect: accepted

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(
    x_ptr: torch.Tensor,
    y_ptr: "pointer to the second vector",  # noqa: F722
    out_ptr,
    n: int,
    BLOCK: tl.constexpr,
) -> None:
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    sum = tl.load(x_ptr + offs, mask=mask)  # a name of Python's own, used as a variable
    sum += tl.load(y_ptr + offs, mask=mask)
    tl.store(out_ptr + offs, sum, mask=mask)


def vector_add(x, y, out):
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x_ptr=x, y_ptr=y, out_ptr=out, n=n, BLOCK=1024)
