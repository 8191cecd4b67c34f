# expect: unfilled
# The cell as it is handed out.
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, stride_m, N, BLOCK_N: tl.constexpr):
    tl.static_assert(False, "row_sum_kernel is not written yet")


def row_sum(x, out):
    M, N = x.shape
    row_sum_kernel[(M,)](x, out, x.stride(0), N, BLOCK_N=triton.next_power_of_2(N))
