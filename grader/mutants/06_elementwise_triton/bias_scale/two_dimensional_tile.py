# expect: accepted
# A program takes 8 rows of 128 columns and reads bias and scale once for them.
import triton
import triton.language as tl


@triton.jit
def bias_scale_kernel(
    x_ptr, bias_ptr, scale_ptr, out_ptr, M, N, stride_xm, stride_om, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    mask = (offs_m < M)[:, None] & mask_n[None, :]
    bias = tl.load(bias_ptr + offs_n, mask=mask_n).to(tl.float32)
    scale = tl.load(scale_ptr + offs_n, mask=mask_n).to(tl.float32)
    x = tl.load(x_ptr + offs_m[:, None] * stride_xm + offs_n[None, :], mask=mask).to(tl.float32)
    tl.store(out_ptr + offs_m[:, None] * stride_om + offs_n[None, :], (x + bias[None, :]) * scale[None, :], mask=mask)


def bias_scale(x, bias, scale, out):
    M, N = x.shape
    BLOCK_N = 128
    bias_scale_kernel[(triton.cdiv(M, 8), triton.cdiv(N, BLOCK_N))](
        x, bias, scale, out, M, N, x.stride(0), out.stride(0), BLOCK_M=8, BLOCK_N=BLOCK_N
    )
