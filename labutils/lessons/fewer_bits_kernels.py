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
# We can choose the order of weights in memory. For its first operand, a tensor core instruction takes from each lane
# certain rows and columns. So a lane loads 16 bytes of a row that hold exactly its 32 of 128 weights. The weights of a
# pair are 16 bits apart: one AND and one OR produce a pair of fp16 numbers 1024 + code in the register that the
# instruction reads. This is Marlin's idea (arXiv:2408.11743) in Triton: the reshapes below move no data. The words of a
# program are contiguous, group by group.
#
# A program has 16 rows of weights per warp. With four warps Triton chooses WGMMA, where a lane has two pairs that are
# eight columns apart. With fewer it chooses mma.sync, where it gives each lane four neighboring columns.


def rows_for(M: int, K: int) -> int:
    """Rows of weights per program, the fastest on an H200: 16 or 32 for one row of a, 64 for more (one WGMMA)."""
    return 64 if M > 1 else 16 if K < 16384 else 32


def in_fragments(words: torch.Tensor, rows: int) -> torch.Tensor:
    """Words (N, K / 8) of the exercise's order, int32, as (N / rows, K / 128, rows, 16) in fragment order.

    Weight k = 32 u + 16 b + 8 c + 2 t + e of a group is in word 4 t + u, at bit 16 e + 8 b + 4 c. For fewer than 64
    rows it is weight k = 32 u + 16 b + 4 t + 2 c + e.
    """
    groups = words.reshape(len(words), -1, 16)
    found = torch.zeros_like(groups)
    t_place, c_place = (4, 2) if rows < 64 else (2, 8)
    for k in range(128):
        word = 4 * (k // t_place % 4) + k // 32
        bit = 16 * (k % 2) + 8 * (k // 16 % 2) + 4 * (k // c_place % 2)
        found[..., word] |= (groups[..., k // 8] >> 4 * (k % 8) & 15) << bit
    return found.reshape(len(words) // rows, rows, -1, 16).transpose(1, 2).contiguous()


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
def high_pairs(x):
    """The same for bits 4 to 7 and 20 to 23, unshifted: (1024 + 16 · code) / 16 - 72 is code - 8."""
    return tl.inline_asm_elementwise(
        """{
        .reg .b32 pair, magic, sixteenth;
        mov.b32 magic, 0x64006400;
        lop3.b32 pair, $2, 0x00f000f0, magic, 0xea;
        mov.b32 sixteenth, 0x2c002c00;
        mov.b32 magic, 0xd480d480;
        fma.rn.f16x2 pair, pair, sixteenth, magic;
        mov.b32 {$0, $1}, pair;
        }""",
        "=h,=h,r", [x], dtype=(tl.float16, tl.float16), is_pure=True, pack=1,
    )  # fmt: skip


@triton.jit
def unpacked(words, WARPS: tl.constexpr):
    """Weights (16 · WARPS, 128), code - 8 in fp16, of a group's words (16 · WARPS, 16) in fragment order.

    A warp loads rows 8 w to 8 w + 7 of each half of the tile, and multiplies them as its 16 rows.
    """
    x = tl.join(words, words >> 8)
    low, low_next = pairs(x)
    high, high_next = high_pairs(x)
    x = tl.join(tl.join(low, high), tl.join(low_next, high_next))
    x = tl.reshape(x, (2, WARPS, 8, 4, 4, 2, 2, 2))  # halves, warps, rows, t, u, b, c, e
    x = tl.permute(x, (1, 0, 2, 4, 5, 3, 6, 7) if WARPS < 4 else (1, 0, 2, 4, 5, 6, 3, 7))
    return tl.reshape(x, (16 * WARPS, 128))


@triton.jit
def fragments_kernel(
    a_ptr, words_ptr, scales_ptr, out_ptr, M, N, groups, stride_am, stride_sn, stride_om,
    BLOCK_M: tl.constexpr, WARPS: tl.constexpr, UNROLL: tl.constexpr, num_stages: tl.constexpr,
):  # fmt: skip
    """out = a times the weights' transpose, words in fragment order; one program, 16 columns for each warp.

    UNROLL groups per iteration, whose words and activations are loaded num_stages - 1 iterations ahead.
    """
    BLOCK_N: tl.constexpr = 16 * WARPS
    pid = tl.program_id(0)
    offs_r, offs_m = tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_M)
    offs_w, offs_k = tl.arange(0, 16), tl.arange(0, 128)
    rows = pid * BLOCK_N + tl.reshape(tl.permute(tl.reshape(offs_r, (2, WARPS, 8)), (1, 0, 2)), (BLOCK_N,))
    mask_m = offs_m[None, :] < M
    words_ptrs = words_ptr + pid.to(tl.int64) * groups * BLOCK_N * 16 + offs_r[:, None] * 16 + offs_w[None, :]
    acc = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for first in tl.range(0, groups, UNROLL, num_stages=num_stages):
        for i in tl.static_range(UNROLL):
            group = first + i
            words = tl.load(words_ptrs + group * (BLOCK_N * 16), eviction_policy="evict_first")
            if BLOCK_M == 8:  # one row of a, in every column: the other columns of acc are not stored
                row = tl.load(a_ptr + group * 128 + offs_k)
                a = tl.broadcast_to(row[:, None], (128, BLOCK_M))
            else:
                a_ptrs = a_ptr + offs_m[None, :] * stride_am + group * 128 + offs_k[:, None]
                a = tl.load(a_ptrs, mask=mask_m, other=0.0)
            scale = tl.load(scales_ptr + rows * stride_sn + group).to(tl.float32)
            acc += tl.dot(unpacked(words, WARPS), a) * scale[:, None]
    tl.store(out_ptr + offs_m[None, :] * stride_om + rows[:, None], acc.to(tl.float16), mask=mask_m)


LOOP = dict(UNROLL=2, num_stages=3)
"""Groups per iteration, and the depth of the pipeline: `python -m bench.precision --tune`."""


def w4a16(a, words, scales, out, config=None):
    """out (M, N) = a (M, K) times the weights' transpose; words of `in_fragments`, best with `rows_for(M, K)` rows.

    Raises ValueError where K is not a multiple of 256.
    """
    (M, K), (tiles, groups, rows, _) = a.shape, words.shape
    if K % 256:
        raise ValueError("K must be a multiple of 256")
    warps = rows // 16
    fragments_kernel[(tiles,)](
        a, words, scales, out, M, tiles * rows, groups, a.stride(0), scales.stride(0), out.stride(0),
        BLOCK_M=8 if M == 1 and warps < 4 else max(16, triton.next_power_of_2(M)), WARPS=warps, num_warps=warps,
        **(LOOP | (config or {})),
    )  # fmt: skip
