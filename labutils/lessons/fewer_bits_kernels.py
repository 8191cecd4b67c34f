"""Given kernels of unit 22: fp16 times 4-bit weights in fragment order, and the cast instruction."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def cast_kernel(y_ptr, codes_ptr, n, BLOCK: tl.constexpr):
    """codes = E4M3(y) by the GPU's instruction, from sm_89 on; one program, BLOCK elements."""
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + offs, mask=offs < n, other=0.0)
    tl.store(codes_ptr + offs, y.to(tl.float8e4nv).to(tl.uint8, bitcast=True), mask=offs < n)


# --- weights in fragment order -------------------------------------------------------------------------------------
#
# We can choose the order of weights in memory. For its first operand, a tensor core instruction takes from lane l
# rows l / 4 and l / 4 + 8, and of each 16 columns the pairs that start at 2 (l % 4) and 2 (l % 4) + 8. So a lane
# loads 16 bytes of a row that hold exactly its 32 of 128 weights. The weights of a pair are 16 bits apart: one AND and
# one OR produce a pair of fp16 numbers 1024 + code in the register that the instruction reads. This is Marlin's idea
# (arXiv:2408.11743) in Triton: the reshapes below move no data.


def in_fragments(words: torch.Tensor) -> torch.Tensor:
    """Words (N, K / 8) of the exercise's order, int32, in fragment order.

    Weight k = 32 u + 16 b + 8 c + 2 t + e of a group is in word 4 t + u, at bit 16 e + 8 b + 4 c.
    """
    groups = words.reshape(len(words), -1, 16)
    found = torch.zeros_like(groups)
    for k in range(128):
        word, bit = 4 * (k // 2 % 4) + k // 32, 16 * (k % 2) + 8 * (k // 16 % 2) + 4 * (k // 8 % 2)
        found[..., word] |= (groups[..., k // 8] >> 4 * (k % 8) & 15) << bit
    return found.reshape(words.shape)


@triton.jit
def pairs(x):
    """Two fp16 tensors, code - 8, of the nibbles in bits 0 to 3 and 16 to 19 of x (int32)."""
    return tl.inline_asm_elementwise(
        """{
        .reg .b32 pair, magic;
        mov.b32 magic, 0x64006400;
        lop3.b32 pair, $2, 0x000f000f, magic, 0xea;
        mov.b32 magic, 0x64086408;
        sub.f16x2 pair, pair, magic;
        mov.b32 {$0, $1}, pair;
        }""",
        "=h,=h,r", [x], dtype=(tl.float16, tl.float16), is_pure=True, pack=1,
    )  # fmt: skip


@triton.jit
def matrix_kernel(
    a_ptr, words_ptr, scales_ptr, out_ptr, M, N, groups, stride_am, stride_wn, stride_sn, stride_om,
    BLOCK_M: tl.constexpr, WARPS: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """out = a times the weights' transpose, words in fragment order; one program, 16 columns for each warp."""
    BLOCK_N: tl.constexpr = 16 * WARPS
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    # a warp loads rows 8 w to 8 w + 7 of each half of the tile, and multiplies them as its 16 rows
    rows = tl.reshape(tl.permute(tl.reshape(offs_n, (2, WARPS, 8)), (1, 0, 2)), (BLOCK_N,))
    offs_m, offs_w, offs_k = tl.arange(0, BLOCK_M), tl.arange(0, 16), tl.arange(0, 128)
    mask_m = offs_m[None, :] < M
    words_ptrs = words_ptr + offs_n[:, None].to(tl.int64) * stride_wn + offs_w[None, :]
    a_ptrs = a_ptr + offs_m[None, :] * stride_am + offs_k[:, None]
    acc = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for first in range(0, groups, UNROLL):
        for i in tl.static_range(UNROLL):
            words = tl.load(words_ptrs + (first + i) * 16)
            a = tl.load(a_ptrs + (first + i) * 128, mask=mask_m, other=0.0)
            scale = tl.load(scales_ptr + rows * stride_sn + first + i).to(tl.float32)
            x = tl.join(words, words >> 8)
            low, high = pairs(tl.join(x, x >> 4))
            x = tl.reshape(tl.join(low, high), (2, WARPS, 8, 4, 4, 2, 2, 2))
            weights = tl.reshape(tl.permute(x, (1, 0, 2, 4, 5, 6, 3, 7)), (BLOCK_N, 128))
            acc += tl.dot(weights, a) * scale[:, None]
    tl.store(out_ptr + offs_m[None, :] * stride_om + rows[:, None], acc.to(tl.float16), mask=mask_m)


@triton.jit
def vector_kernel(
    a_ptr, words_ptr, scales_ptr, out_ptr, groups, stride_wn, stride_sn, BLOCK_N: tl.constexpr, UNROLL: tl.constexpr
):
    """The same for one row of a, without tensor cores; one program, BLOCK_N columns, UNROLL groups per iteration.

    The bits of a whole number are a subnormal fp32 number: masked, a code q at bit p is q · 2^(p - 149), so there is
    nothing to convert, and a is scaled in its place, by 2^(100 - p); 8 · sum(a) is subtracted for the zero point.
    """
    W: tl.constexpr = 16 * UNROLL
    offs_n, offs_w = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, W)
    words_ptrs = words_ptr + offs_n[:, None].to(tl.int64) * stride_wn + offs_w[None, :]
    scales_ptrs = scales_ptr + offs_n[:, None] * stride_sn + offs_w[None, :] // 16
    a_ptrs = a_ptr + offs_w // 16 * 128 + 32 * (offs_w % 4) + offs_w % 16 // 4 * 2
    acc = tl.zeros((BLOCK_N, W), tl.float32)
    for group in range(0, groups, UNROLL):
        words = tl.load(words_ptrs + group * 16)
        scale = tl.load(scales_ptrs + group).to(tl.float32)
        sums = tl.zeros((BLOCK_N, W), tl.float32)
        total = tl.zeros((W,), tl.float32)
        for j in tl.static_range(5):
            a = tl.load(a_ptrs + group * 128 + j // 4 + j // 2 % 2 * 16 + j % 2 * 8).to(tl.float32)
            total += a
            sums += (words & (15 << 4 * j)).to(tl.float32, bitcast=True) * (a * 2.0 ** (100 - 4 * j))[None, :]
        words = words >> 12  # the last three codes would reach past the 23 bits of a mantissa
        for j in tl.static_range(5, 8):
            a = tl.load(a_ptrs + group * 128 + j // 4 + j // 2 % 2 * 16 + j % 2 * 8).to(tl.float32)
            total += a
            sums += (words & (15 << 4 * j - 12)).to(tl.float32, bitcast=True) * (a * 2.0 ** (112 - 4 * j))[None, :]
        acc += (sums * 2.0**49 - 8 * total[None, :]) * scale
    tl.store(out_ptr + offs_n, tl.sum(acc, 1).to(tl.float16))


VECTOR = dict(BLOCK_N=16, UNROLL=4, num_warps=1)
MATRIX = dict(WARPS=4, UNROLL=2, num_stages=4)
"""Columns per program, and groups per iteration: `python -m bench.precision --tune`."""


def w4a16(a, words, scales, out, config=None):
    """out (M, N) = a (M, K) times the weights' transpose; words (N, K / 8) in fragment order.

    N is a multiple of 64, K of 512; ValueError where they are not. One row of a needs no tensor cores.
    """
    (M, K), N = a.shape, len(words)
    if N % 64 or K % 512:
        raise ValueError("N must be a multiple of 64, and K of 512")
    if M == 1:
        config = VECTOR | (config or {})
        grid = (triton.cdiv(N, config["BLOCK_N"]),)
        vector_kernel[grid](a, words, scales, out, K // 128, words.stride(0), scales.stride(0), **config)
        return
    config = MATRIX | (config or {})
    warps = config["WARPS"]
    matrix_kernel[(N // (16 * warps),)](
        a, words, scales, out, M, N, K // 128, a.stride(0), words.stride(0), scales.stride(0), out.stride(0),
        BLOCK_M=max(16, triton.next_power_of_2(M)), num_warps=warps, **config,
    )  # fmt: skip
