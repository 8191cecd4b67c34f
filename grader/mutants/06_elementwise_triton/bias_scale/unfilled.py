# expect: unfilled
# The cell as it is handed out.
import triton
import triton.language as tl


@triton.jit
def bias_scale_kernel(x_ptr, bias_ptr, scale_ptr, out_ptr, N, stride_xm, stride_om, BLOCK_N: tl.constexpr):
    tl.static_assert(False, "bias_scale_kernel is not written yet")


def bias_scale(x, bias, scale, out):
    M, N = x.shape
    BLOCK_N = 1024
    bias_scale_kernel[(M, triton.cdiv(N, BLOCK_N))](x, bias, scale, out, N, x.stride(0), out.stride(0), BLOCK_N=BLOCK_N)
