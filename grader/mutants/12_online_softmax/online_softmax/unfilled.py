# expect: unfilled
# The cell as it is handed out.
import triton
import triton.language as tl


@triton.jit
def online_softmax_kernel(x_ptr, out_ptr, N, stride_xm, stride_om, BLOCK_N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)  # 64 bits: row · stride may pass 2^31
    x_ptr += row * stride_xm
    out_ptr += row * stride_om
    m = tl.full((), -float("inf"), tl.float32)
    l = tl.full((), 0.0, tl.float32)
    tl.static_assert(False, "online_softmax_kernel is not written yet")


def online_softmax(x, out, BLOCK_N=4096):
    M, N = x.shape
    online_softmax_kernel[(M,)](x, out, N, x.stride(0), out.stride(0), BLOCK_N=BLOCK_N, num_warps=8)
