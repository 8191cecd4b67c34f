# expect: unfilled
# The cell as it is handed out.
import triton
import triton.language as tl


@triton.jit
def total_sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(False, "total_sum_kernel is not written yet")


def total_sum(x, out):
    n, BLOCK = x.numel(), 4096
    out.zero_()
    total_sum_kernel[(triton.cdiv(n, 4 * BLOCK),)](x, out, n, BLOCK=BLOCK)
