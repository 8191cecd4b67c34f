# expect: unfilled
# The cell as it is handed out.
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, N, stride_xm, stride_om, BLOCK_N: tl.constexpr):
    row = tl.program_id(0)
    offs_n = tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    # -inf beyond the row: no maximum, and exp(-inf) = 0 in the sum
    tl.static_assert(False, "softmax_kernel is not written yet")


def softmax(x, out):
    M, N = x.shape
    BLOCK_N = triton.next_power_of_2(N)
    num_warps = min(max(BLOCK_N // 512, 1), 16)  # 16 elements a thread: four loads of 16 bytes on their way
    softmax_kernel[(M,)](x, out, N, x.stride(0), out.stride(0), BLOCK_N=BLOCK_N, num_warps=num_warps)
