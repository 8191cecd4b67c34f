# expect: accepted
# One index over all elements, taken apart by division and remainder.
import triton
import triton.language as tl


@triton.jit
def bias_scale_kernel(x_ptr, bias_ptr, scale_ptr, out_ptr, total, N, stride_xm, stride_om, BLOCK_N: tl.constexpr):
    offs = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = offs < total
    row, col = offs // N, offs % N
    x = tl.load(x_ptr + row * stride_xm + col, mask=mask).to(tl.float32)
    bias = tl.load(bias_ptr + col, mask=mask).to(tl.float32)
    scale = tl.load(scale_ptr + col, mask=mask).to(tl.float32)
    tl.store(out_ptr + row * stride_om + col, (x + bias) * scale, mask=mask)


def bias_scale(x, bias, scale, out):
    M, N = x.shape
    BLOCK_N = 1024
    bias_scale_kernel[(triton.cdiv(M * N, BLOCK_N),)](
        x, bias, scale, out, M * N, N, x.stride(0), out.stride(0), BLOCK_N=BLOCK_N
    )
