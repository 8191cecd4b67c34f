# tries: configurations whose hook clears the output before each launch
# exercise: 10_warp_reduction/total_sum
# expect: accepted

import triton
import triton.language as tl


def clear(nargs):
    nargs["out_ptr"].zero_()


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 1024}, num_warps=4, pre_hook=clear),
        triton.Config({"BLOCK": 2048}, num_warps=8, pre_hook=clear),
    ],
    key=["n"],
)
@triton.jit
def total_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.atomic_add(out_ptr, tl.sum(x, axis=0), sem="relaxed")


def total_sum(x, out):
    n = x.numel()
    total_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
