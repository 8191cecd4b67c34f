# expect: unfilled
# The cell as it is handed out.
import triton
import triton.language as tl


@triton.jit
def gelu_backward_kernel(x_ptr, dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(False, "gelu_backward_kernel is not written yet")


def gelu_backward(x, dy, dx):
    n = x.numel()
    BLOCK = 1024
    gelu_backward_kernel[(triton.cdiv(n, BLOCK),)](x, dy, dx, n, BLOCK=BLOCK)
