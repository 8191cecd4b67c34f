# expect: unfilled
# The cell as it is handed out.
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(False, "gelu_kernel is not written yet")


def gelu(x, out):
    n = x.numel()
    BLOCK = 1024
    gelu_kernel[(triton.cdiv(n, BLOCK),)](x, out, n, BLOCK=BLOCK)
