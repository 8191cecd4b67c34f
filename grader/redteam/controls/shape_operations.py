# tries: reshape, permute, join, split, interleave, broadcast_to, expand_dims, flip and ravel
# exercise: 06_elementwise_triton/bias_scale
# expect: accepted

import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, bias_ptr, scale_ptr, out_ptr, N, stride_x, stride_o, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    cols = tl.program_id(0) * BLOCK + tl.ravel(tl.reshape(tl.arange(0, BLOCK), (BLOCK // 2, 2)))
    mask = cols < N
    back = tl.program_id(0) * BLOCK + BLOCK - 1 - tl.arange(0, BLOCK)
    x = tl.flip(tl.load(x_ptr + row * stride_x + back, mask=back < N, other=0.0).to(tl.float32), 0)
    left, right = tl.split(tl.reshape(x, (BLOCK // 2, 2)))
    x = tl.interleave(left, right)
    bias = tl.load(bias_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    scale = tl.load(scale_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    both = tl.permute(tl.join(bias, scale), (1, 0))
    pick = tl.expand_dims(tl.arange(0, 2), 1)
    bias = tl.sum(tl.where(pick == 0, both, tl.zeros_like(both)), 0)
    y = (x + bias) * tl.reshape(tl.broadcast_to(scale[None, :], (1, BLOCK)), (BLOCK,))
    tl.store(out_ptr + row * stride_o + cols, y, mask=mask)


def bias_scale(x, bias, scale, out):
    M, N = x.shape
    kernel[(triton.cdiv(N, 1024), M)](x, bias, scale, out, N, x.stride(0), out.stride(0), BLOCK=1024)
