# expect: accepted
# x * sigmoid(2a).
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
def dropout_gelu_kernel(h_ptr, bias_ptr, out_ptr, p, seed, N, stride_hm, stride_om, BLOCK_N: tl.constexpr):
    blocks = tl.cdiv(N, BLOCK_N)
    row, block = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    offs_n = block * BLOCK_N + tl.arange(0, BLOCK_N)
    mask_n = offs_n < N
    u = uniform(seed, row * tl.cdiv(N, 4) + block * (BLOCK_N // 4), BLOCK_N)
    h = tl.load(h_ptr + row * stride_hm + offs_n, mask=mask_n).to(tl.float32)
    x = h + tl.load(bias_ptr + offs_n, mask=mask_n).to(tl.float32)
    a = ROOT * x * (1 + CUBIC * x * x)
    y = x * tl.sigmoid(2 * a)
    tl.store(out_ptr + row * stride_om + offs_n, tl.where(u >= p, y / (1 - p), 0.0), mask=mask_n)


def dropout_gelu(h, bias, p, seed, out, BLOCK_N=1024):
    M, N = h.shape
    grid = (M * triton.cdiv(N, BLOCK_N),)
    dropout_gelu_kernel[grid](h, bias, out, p, seed, N, h.stride(0), out.stride(0), BLOCK_N=BLOCK_N)
