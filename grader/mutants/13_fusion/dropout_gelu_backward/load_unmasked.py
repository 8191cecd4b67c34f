# expect: tail-unmasked
# Reads dy past the end of the row.
import math

import triton
import triton.language as tl

ROOT = tl.constexpr(math.sqrt(2 / math.pi))


CUBIC = tl.constexpr(0.044715)


@triton.jit
def uniform(seed, first, BLOCK: tl.constexpr):
    r0, r1, r2, r3 = tl.rand4x(seed, first + tl.arange(0, BLOCK // 4))
    return tl.interleave(tl.interleave(r0, r2), tl.interleave(r1, r3))


@triton.jit
def dropout_gelu_backward_kernel(
    h_ptr, bias_ptr, dy_ptr, dh_ptr, p, seed, N, stride_hm, stride_ym, stride_dm, BLOCK_N: tl.constexpr
):
    blocks = tl.cdiv(N, BLOCK_N)
    row, block = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    offs_n = block * BLOCK_N + tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    u = uniform(seed, row * tl.cdiv(N, 4) + block * (BLOCK_N // 4), BLOCK_N)
    h = tl.load(h_ptr + row * stride_hm + offs_n, mask=mask_n).to(tl.float32)
    x = h + tl.load(bias_ptr + offs_n, mask=mask_n).to(tl.float32)
    dy = tl.load(dy_ptr + row * stride_ym + offs_n).to(tl.float32)
    a = ROOT * x * (1 + CUBIC * x * x)
    s = 1 / (1 + tl.exp(-2 * a))
    slope = s + 2 * x * s * (1 - s) * ROOT * (1 + 3 * CUBIC * x * x)
    tl.store(dh_ptr + row * stride_dm + offs_n, tl.where(u >= p, dy * slope / (1 - p), 0.0), mask=mask_n)


def dropout_gelu_backward(h, bias, dy, p, seed, dh, BLOCK_N=1024):
    M, N = h.shape
    grid, strides = (M * triton.cdiv(N, BLOCK_N),), (h.stride(0), dy.stride(0), dh.stride(0))
    dropout_gelu_backward_kernel[grid](h, bias, dy, dh, p, seed, N, *strides, BLOCK_N=BLOCK_N)
