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
# For one row of a, the two warps of a program multiply the same rows of weights by different groups of k, and the sums
# are added at the end: a program then keeps twice the bytes in flight. Here Triton chooses mma.sync and gives each lane
# four neighboring columns. For more rows of a it is one WGMMA with 16 rows of weights per warp, where a lane has two
# pairs that are eight columns apart.

WARPS = 4
"""Warps of a program for more than one row of a, as many as share a WGMMA."""


def rows_for(M: int) -> int:
    """Rows of weights per program: 16 for one row of a, 64 for more."""
    return 16 * WARPS if M > 1 else 16


def in_fragments(words: torch.Tensor, scales: torch.Tensor, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Words (N, K / 8) and scales (N, K / 128) of the exercise's order, in the order in which programs load them.

    The words are (N / rows, K / 128, rows, 16), the scales (N / rows, K / 128, rows). Weight k = 32 u + 16 b + 8 c +
    2 t + e of a group is in word 4 t + u, at bit 16 e + 8 b + 4 c. For fewer than 64 rows it is weight k = 32 u +
    16 b + 4 t + 2 c + e.
    """
    groups = words.reshape(len(words), -1, 16)
    found = torch.zeros_like(groups)
    t_place, c_place = (4, 2) if rows < 64 else (2, 8)
    for k in range(128):
        word = 4 * (k // t_place % 4) + k // 32
        bit = 16 * (k % 2) + 8 * (k // 16 % 2) + 4 * (k // c_place % 2)
        found[..., word] |= (groups[..., k // 8] >> 4 * (k % 8) & 15) << bit
    words, scales = (t.reshape(len(words) // rows, rows, *t.shape[1:]).transpose(1, 2) for t in (found, scales))
    return words.contiguous(), scales.contiguous()


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
def fragments(words):
    """Two fp16 numbers, code - 8, for each of the nibble pairs of words (…, 16): (…, 16, 2, 2, 2) by b, c and e."""
    x = tl.join(words, words >> 8)
    low, low_next = pairs(x)
    high, high_next = high_pairs(x)
    return tl.join(tl.join(low, high), tl.join(low_next, high_next))


@triton.jit
def row_kernel(
    a_ptr, words_ptr, scales_ptr, out_ptr, groups,
    ROWS: tl.constexpr, SPLIT: tl.constexpr, UNROLL: tl.constexpr, num_stages: tl.constexpr,
):  # fmt: skip
    """out = one row of a times the weights' transpose; one program, ROWS columns.

    Each of the SPLIT warps has every SPLIT-th group. UNROLL groups of a warp per iteration, whose words are loaded
    num_stages - 1 iterations ahead.
    """
    pid = tl.program_id(0)
    offs_n, offs_s = tl.arange(0, ROWS), tl.arange(0, SPLIT)
    offs_w, offs_k, offs_r = tl.arange(0, 16), tl.arange(0, 128), tl.arange(0, SPLIT * ROWS)
    # Row r of a tile of words: eight rows of the first warp's group, eight of the second's, and so on.
    row_in_group, warp = offs_r // (8 * SPLIT) * 8 + offs_r % 8, offs_r // 8 % SPLIT
    tile_ptrs = words_ptr + pid.to(tl.int64) * groups * ROWS * 16
    words_ptrs = tile_ptrs + (warp * ROWS + row_in_group)[:, None] * 16 + offs_w[None, :]
    acc = tl.zeros((SPLIT, ROWS, 8), tl.float32)  # the smallest mma.sync has eight columns: all of them are a's row
    for first in tl.range(0, groups, SPLIT * UNROLL, num_stages=num_stages):
        for i in tl.static_range(UNROLL):
            group = first + i * SPLIT
            words = tl.load(words_ptrs + group * (ROWS * 16), eviction_policy="evict_first")
            a = tl.load(a_ptr + (group + offs_s[:, None]) * 128 + offs_k[None, :])
            scale = tl.load(scales_ptr + (pid * groups + group + offs_s[:, None]) * ROWS + offs_n[None, :])
            weights = tl.reshape(fragments(words), (ROWS // 8, SPLIT, 8, 4, 4, 2, 2, 2))  # rows, warps, rows, t, u, …
            weights = tl.reshape(tl.permute(weights, (1, 0, 2, 4, 5, 3, 6, 7)), (SPLIT, ROWS, 128))
            columns = tl.broadcast_to(a[:, :, None], (SPLIT, 128, 8))
            acc += tl.dot(weights, columns) * scale.to(tl.float32)[:, :, None]
    total = tl.sum(tl.sum(acc, 0) * (tl.arange(0, 8) == 0), 1)
    tl.store(out_ptr + pid * ROWS + offs_n, total.to(tl.float16))


@triton.jit
def rows_kernel(
    a_ptr, words_ptr, scales_ptr, out_ptr, M, groups, stride_am, stride_om,
    BLOCK_M: tl.constexpr, WARPS: tl.constexpr, UNROLL: tl.constexpr, num_stages: tl.constexpr,
):  # fmt: skip
    """out = a times the weights' transpose; one program, 16 columns for each warp.

    UNROLL groups per iteration, whose words and activations are loaded num_stages - 1 iterations ahead.
    """
    BLOCK_N: tl.constexpr = 16 * WARPS
    pid = tl.program_id(0)
    offs_r, offs_m = tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_M)
    offs_w, offs_k = tl.arange(0, 16), tl.arange(0, 128)
    # A warp loads rows 8 w to 8 w + 7 of each half of the tile, and multiplies them as its 16 rows.
    rows = tl.reshape(tl.permute(tl.reshape(offs_r, (2, WARPS, 8)), (1, 0, 2)), (BLOCK_N,))
    mask_m = offs_m[None, :] < M
    words_ptrs = words_ptr + pid.to(tl.int64) * groups * BLOCK_N * 16 + offs_r[:, None] * 16 + offs_w[None, :]
    acc = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for first in tl.range(0, groups, UNROLL, num_stages=num_stages):
        for i in tl.static_range(UNROLL):
            group = first + i
            words = tl.load(words_ptrs + group * (BLOCK_N * 16), eviction_policy="evict_first")
            a_ptrs = a_ptr + offs_m[None, :] * stride_am + group * 128 + offs_k[:, None]
            a = tl.load(a_ptrs, mask=mask_m, other=0.0)
            scale = tl.load(scales_ptr + (pid * groups + group) * BLOCK_N + rows).to(tl.float32)
            weights = tl.reshape(fragments(words), (2, WARPS, 8, 4, 4, 2, 2, 2))  # halves, warps, rows, t, u, b, c, e
            weights = tl.reshape(tl.permute(weights, (1, 0, 2, 4, 5, 6, 3, 7)), (BLOCK_N, 128))
            acc += tl.dot(weights, a) * scale[:, None]
    out_ptrs = out_ptr + offs_m[None, :] * stride_om + (pid * BLOCK_N + rows)[:, None]
    tl.store(out_ptrs, acc.to(tl.float16), mask=mask_m)


SHORT_ROW = dict(SPLIT=2, UNROLL=2, num_stages=2)
LONG_ROW = dict(SPLIT=4, UNROLL=2, num_stages=3)
LONG_K = 16384
LOOP = dict(UNROLL=2, num_stages=3)
"""Warps that split the groups, groups per iteration, depth of the pipeline: `python -m bench.precision --tune`."""


def w4a16(a, words, scales, out, config=None):
    """out (M, N) = a (M, K) times the weights' transpose; words and scales of `in_fragments` for `rows_for(M)` rows.

    Raises ValueError where K is not a multiple of 512.
    """
    (M, K), (tiles, groups, rows, _) = a.shape, words.shape
    if K % 512:
        raise ValueError("K must be a multiple of 512")
    if M == 1:
        is_long = K >= LONG_K and K % 1024 == 0  # an iteration of LONG_ROW takes eight groups
        loop = (LONG_ROW if is_long else SHORT_ROW) | (config or {})
        row_kernel[(tiles,)](a, words, scales, out, groups, ROWS=rows, num_warps=loop["SPLIT"], **loop)
    else:
        rows_kernel[(tiles,)](
            a, words, scales, out, M, groups, a.stride(0), out.stride(0),
            BLOCK_M=max(16, triton.next_power_of_2(M)), WARPS=rows // 16, num_warps=rows // 16,
            **(LOOP | (config or {})),
        )  # fmt: skip
