# expect: wrong-formula
# exp2 without the factor log2(e).
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, N, stride_xm, stride_om, BLOCK_N: tl.constexpr):
    row = tl.program_id(0)
    offs_n = tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    # -inf beyond the row: no maximum, and exp(-inf) = 0 in the sum
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n, other=-float("inf")).to(tl.float32)
    e = tl.exp2(x - tl.max(x))
    tl.store(out_ptr + row * stride_om + offs_n, e / tl.sum(e), mask=mask_n)


def softmax(x, out):
    M, N = x.shape
    BLOCK_N = triton.next_power_of_2(N)
    num_warps = min(max(BLOCK_N // 512, 1), 16)  # 16 elements a thread: four loads of 16 bytes on their way
    softmax_kernel[(M,)](x, out, N, x.stride(0), out.stride(0), BLOCK_N=BLOCK_N, num_warps=num_warps)
