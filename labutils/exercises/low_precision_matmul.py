"""Unit 22, products: E4M3 operands with one scale per block of 128."""

from __future__ import annotations

import torch

from ..spec.exercise import Case, Contract, Cost, KernelExercise, KnownMistake, Points, array, out, register
from ._codes import E4M3, decode, encode

UNIT = "22_low_precision"
BLOCK = 128
"""Elements of K that share a scale; for the second operand, also elements of N."""

# --- E4M3 with block scales ----------------------------------------------------------------------------------------


def _values(codes):
    return decode(codes, E4M3)


def _wide(scale, rows: int, K: int):
    """Block scales expanded to one scale per element: rows of `scale` are repeated `rows` times."""
    return scale.repeat_interleave(rows, 0).repeat_interleave(BLOCK, 1)[:, :K]


def _fp8(a, b, sa, sb, value=_values):
    """sum over k of a · sa · b · sb, a (M, K) and b (N, K)."""
    (_, K), N = a.shape, len(b)
    return (value(a) * _wide(sa, 1, K)) @ (value(b) * _wide(sb, BLOCK, K)[:N]).T


def _magnitude(a, b, sa, sb):
    return _fp8(a, b, sa.abs(), sb.abs(), value=lambda codes: _values(codes).abs())


def _scales(change):
    """The product with other scales: `change(sa, sb, M, N)` returns those of rows (M, KB) and of columns (N, KB)."""

    def compute(a, b, sa, sb):
        (M, K), N = a.shape, len(b)
        sa, sb = change(sa, sb.repeat_interleave(BLOCK, 0)[:N], M, N)
        return (_values(a) * _wide(sa, 1, K)) @ (_values(b) * _wide(sb, 1, K)).T

    return compute


def _block_of(at):
    """All blocks of K use the scales of one block."""
    return _scales(
        lambda sa, sb, M, N: (sa[:, at : at + 1 or None].expand_as(sa), sb[:, at : at + 1 or None].expand_as(sb))
    )


def _rescaled(a, b, sa, sb):
    """The result of a loop that multiplies the accumulator, not the product, by each block's scales."""
    total, K = 0, a.shape[1]
    for g in range(sa.shape[1]):
        k = slice(g * BLOCK, min(K, (g + 1) * BLOCK))
        column = sb[:, g].repeat_interleave(BLOCK)[: len(b)]
        total = (total + _values(a[:, k]) @ _values(b[:, k]).T) * sa[:, g, None] * column
    return total


def _only(cut):
    """The product over part of K."""

    def compute(a, b, sa, sb):
        keep = (torch.arange(a.shape[1]) // BLOCK)[:, None] == cut(sa.shape[1])
        return _fp8(torch.where(keep.T, a, 0.0), b, sa, sb)

    return compute


def _by_column(sa, sb, M, N):
    """Row m's scale used for column m, where it exists."""
    rows = torch.arange(N).clamp(max=M - 1)
    return torch.ones_like(sa), sb * sa[rows]


FP8_MISTAKES = (
    KnownMistake("wrong-formula", "{name} lacks both scales", _scales(lambda sa, sb, M, N: (sa**0, sb**0))),
    KnownMistake("wrong-formula", "{name} lacks the scales of a", _scales(lambda sa, sb, M, N: (sa**0, sb))),
    KnownMistake("wrong-formula", "{name} lacks the scales of b", _scales(lambda sa, sb, M, N: (sa, sb**0))),
    KnownMistake(
        "wrong-formula",
        "every block of K uses the scales of the last one: scale each block's product in the loop",
        _block_of(-1),
    ),
    KnownMistake(
        "wrong-formula", "every block of K uses the scales of the first one: advance the scale pointers", _block_of(0)
    ),
    KnownMistake(
        "wrong-formula",
        "the accumulator is multiplied by the scales in each iteration: scale the block's product, then add it",
        _rescaled,
    ),
    KnownMistake("wrong-formula", "sa is applied to the columns of c: it belongs to the rows", _scales(_by_column)),
    KnownMistake(
        "wrong-formula",
        "all columns use the scales of the first 128: the row of sb is n // 128",
        _scales(lambda sa, sb, M, N: (sa, sb[:1].expand_as(sb))),
    ),
    KnownMistake(
        "wrong-formula",
        "{name} is divided by the scales",
        _scales(lambda sa, sb, M, N: (1 / sa, 1 / sb)),
    ),
    KnownMistake(
        "wrong-formula",
        "the sums of the scales are used, not their products",
        lambda a, b, sa, sb: (
            (_values(a) * _wide(sa, 1, a.shape[1])) @ _values(b).T
            + _values(a) @ (_values(b) * _wide(sb, BLOCK, a.shape[1])[: len(b)]).T
        ),
    ),
    KnownMistake(
        "wrong-formula",
        "the codes are multiplied as integers: `operand` converts them to values",
        lambda a, b, sa, sb: _fp8(a, b, sa, sb, value=lambda codes: codes),
    ),
    KnownMistake("missing-accumulation", "{name} holds only the last block of K", _only(lambda blocks: blocks - 1)),
    KnownMistake("missing-accumulation", "{name} holds only the first block of K", _only(lambda blocks: 0)),
    KnownMistake(
        "missing-accumulation",
        "each iteration multiplies the first block of K again: advance the tile position",
        lambda a, b, sa, sb: _repeated(a, b, sa, sb),
    ),
)


def _repeated(a, b, sa, sb):
    """Every block of K multiplies the values of the first block with its own scales."""
    k = torch.arange(a.shape[1]) % BLOCK
    return _fp8(a[:, k], b[:, k], sa, sb)


def _codes(rows: str):
    """Codes of normally distributed values, small enough for their sums to fit into fp16."""

    def fill(sizes, g):
        x = 8 * torch.randn(sizes[rows], sizes["K"], generator=g, dtype=torch.float64)
        return encode(x, E4M3)

    return fill


def _block_scales(rows: str):
    """Scales that differ by up to 8 times and are near 1, so that each block matters."""

    def fill(sizes, g):
        shape = sizes[rows], sizes["KB"]
        return torch.exp2(torch.rand(shape, generator=g, dtype=torch.float64) * 3 - 3)

    return fill


def _of(M, N, K):
    return {"M": M, "N": N, "K": K, "KB": -(-K // BLOCK), "NB": -(-N // BLOCK)}


def _fp8_cost(sizes, item) -> Cost:
    M, N, K = sizes["M"], sizes["N"], sizes["K"]
    return Cost(K * (M + N) + 4 * sizes["KB"] * (M + sizes["NB"]), item * M * N, 2 * M * N * K)


register(
    KernelExercise(
        id=f"{UNIT}/fp8_matmul",
        title="FP8 matmul with block scales",
        entry="fp8_matmul",
        points=Points(correct=5),
        arguments={
            "a": array("M", "K", fill=_codes("M"), dtype="uint8"),
            "b": array("N", "K", fill=_codes("N"), dtype="uint8"),
            "sa": array("M", "KB", fill=_block_scales("M"), dtype="float32"),
            "sb": array("NB", "KB", fill=_block_scales("NB"), dtype="float32"),
            "c": out("M", "N"),
        },
        reference=_fp8,
        magnitude=_magnitude,
        contract=Contract(dtype="float16", operands="fp8 sums", terms=lambda sizes: sizes["K"]),
        cost=_fp8_cost,
        cases=(
            Case("one element, K = 1", _of(1, 1, 1), fill="position"),
            Case("20 × 24, K = 128: one block", _of(20, 24, 128), fill="wide"),
            Case("33 × 40, K = 384: three blocks", _of(33, 40, 384)),
            Case("70 × 130, K = 256: two blocks of columns", _of(70, 130, 256), fill="position"),
            Case("130 × 66, K = 200: a last block of 72", _of(130, 66, 200), fill="wide"),
            Case("65 × 129, K = 320, padded rows", _of(65, 129, 320), layout="padded"),
            Case("40 × 257, K = 137, not aligned to 16 bytes", _of(40, 257, 137), fill="position", layout="offset"),
            Case("36 × 150, K = 300: the inputs are column-major", _of(36, 150, 300), layout="input columns"),
            Case("1 × 4100, K = 5: 33 blocks of columns", _of(1, 4100, 5), fill="position"),
        ),
        draw=lambda rng: _of(
            rng.randrange(1, 150), rng.randrange(1, 300), rng.choice([128, 256, 384, rng.randrange(1, 400)])
        ),
        tiny=Case("2 × 3, K = 4", _of(2, 3, 4)),
        bench=_of(4096, 4096, 4096),
        known_mistakes=FP8_MISTAKES,
    )
)
