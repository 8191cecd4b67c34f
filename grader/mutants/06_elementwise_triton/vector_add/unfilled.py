# expect: unfilled
# The cell as it is handed out.
import triton
import triton.language as tl


@triton.jit
def vector_add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(False, "vector_add_kernel is not written yet")


def vector_add(x, y, out):
    n = x.numel()
    BLOCK = 1024
    vector_add_kernel[(triton.cdiv(n, BLOCK),)](x, y, out, n, BLOCK=BLOCK)
