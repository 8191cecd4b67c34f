# tries: a three-dimensional grid, with a grid function that returns a list's tuple
# exercise: 06_elementwise_triton/bias_scale
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def bias_scale_kernel(x_ptr, bias_ptr, scale_ptr, out_ptr, M, N, stride_x, stride_out, BLOCK: tl.constexpr):
    block, low, high = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    row = high * tl.num_programs(1) + low
    cols = block * BLOCK + tl.arange(0, BLOCK)
    mask = (cols < N) & (row < M)
    x = tl.load(x_ptr + row * stride_x + cols, mask=mask).to(tl.float32)
    bias = tl.load(bias_ptr + cols, mask=mask).to(tl.float32)
    scale = tl.load(scale_ptr + cols, mask=mask).to(tl.float32)
    tl.store(out_ptr + row * stride_out + cols, (x + bias) * scale, mask=mask)


def bias_scale(x, bias, scale, out):
    M, N = x.shape

    def grid(meta):
        return tuple([triton.cdiv(N, meta["BLOCK"]), min(M, 8), triton.cdiv(M, min(M, 8))])

    bias_scale_kernel[grid](x, bias, scale, out, M, N, x.stride(0), out.stride(0), BLOCK=512, num_warps=2)
