# expect: input-overwritten
# Stores into x too.
import triton
import triton.language as tl


@triton.jit
def bias_scale_kernel(x_ptr, bias_ptr, scale_ptr, out_ptr, N, stride_xm, stride_om, BLOCK_N: tl.constexpr):
    row = tl.program_id(0)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    x = tl.load(x_ptr + row * stride_xm + offs_n, mask=mask_n).to(tl.float32)
    bias = tl.load(bias_ptr + offs_n, mask=mask_n).to(tl.float32)
    scale = tl.load(scale_ptr + offs_n, mask=mask_n).to(tl.float32)
    out = (x + bias) * scale
    tl.store(x_ptr + row * stride_xm + offs_n, out, mask=mask_n)
    tl.store(out_ptr + row * stride_om + offs_n, out, mask=mask_n)


def bias_scale(x, bias, scale, out):
    M, N = x.shape
    BLOCK_N = 1024
    bias_scale_kernel[(M, triton.cdiv(N, BLOCK_N))](x, bias, scale, out, N, x.stride(0), out.stride(0), BLOCK_N=BLOCK_N)
