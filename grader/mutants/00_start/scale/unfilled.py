# expect: unfilled
# The cell as it is handed out.
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, factor, out_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(False, "scale_kernel is not written yet")


def scale(x, factor, out):
    n = x.numel()
    BLOCK = 1024
    scale_kernel[(triton.cdiv(n, BLOCK),)](x, factor, out, n, BLOCK=BLOCK)
