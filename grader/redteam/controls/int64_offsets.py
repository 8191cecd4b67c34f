# tries: 64-bit offsets everywhere, strides cast in the kernel
# exercise: 06_elementwise_triton/bias_scale
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def bias_scale_kernel(
    x_ptr, bias_ptr, scale_ptr, out_ptr, M, N, stride_xm: tl.int64, stride_xn: tl.int64, stride_om: tl.int64,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)
    offs_n = tl.cast(tl.program_id(1), tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (offs_m < M)[:, None] & (offs_n < N)[None, :]
    x = tl.load(x_ptr + offs_m[:, None] * stride_xm + offs_n[None, :] * stride_xn, mask=mask, other=0)
    bias = tl.load(bias_ptr + offs_n, mask=offs_n < N, other=0)[None, :]
    scale = tl.load(scale_ptr + offs_n, mask=offs_n < N, other=0)[None, :]
    y = (x.to(tl.float32) + bias.to(tl.float32)) * scale.to(tl.float32)
    tl.store(out_ptr + offs_m[:, None] * stride_om + offs_n[None, :], y.to(out_ptr.type.element_ty), mask=mask)


def bias_scale(x, bias, scale, out):
    M, N = x.shape
    grid = triton.cdiv(M, 8), triton.cdiv(N, 128)
    bias_scale_kernel[grid](x, bias, scale, out, M, N, *x.stride(), out.stride(0), BLOCK_M=8, BLOCK_N=128)
