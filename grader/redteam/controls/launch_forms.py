# tries: arguments by name and out of order, defaults, launch options, a grid that is a single number in a tuple
# exercise: 06_elementwise_triton/vector_add
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def add_kernel(
    out_ptr, x_ptr, y_ptr, n_elements, alpha=1.0, BLOCK_SIZE: tl.constexpr = 256, RELU: tl.constexpr = False
):
    pid = tl.program_id(axis=0)
    block_start = pid * BLOCK_SIZE
    offsets = block_start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    output = tl.load(x_ptr + offsets, mask=mask) + alpha * tl.load(y_ptr + offsets, mask=mask)
    if RELU:
        output = tl.maximum(output, 0)
    tl.store(out_ptr + offsets, output, mask=mask)


def vector_add(x, y, out):
    n_elements = out.numel()
    options = dict(num_warps=2, num_stages=1, num_ctas=1)
    grid = (triton.cdiv(n_elements, 256),)
    add_kernel[grid](y_ptr=y, x_ptr=x, n_elements=n_elements, out_ptr=out, **options)
