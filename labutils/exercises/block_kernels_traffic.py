"""Unit 24, kernels: what partial sums add to the traffic of a sum in two stages."""

from __future__ import annotations

from ..spec.exercise import Case, PlainExercise, Points, register
from ._numbers import sentence_for

FP32 = 4
"""Bytes of an element of `partial`."""


def partial_share(M: int, N: int, P: int, item: int) -> float:
    """Bytes of `partial` (P, N), written and read once, divided by those of x, dy and dx (M, N)."""
    return 2 * FP32 * P * N / (3 * item * M * N)


def _explain(sizes, yours, expected) -> str | None:
    M, N, P, item = (sizes[n] for n in ("M", "N", "P", "item"))
    partial, arrays = P * N * FP32, M * N * item
    return sentence_for(
        yours,
        (
            (partial / (3 * arrays), "partial is written by the first kernel and read by the second: count it twice."),
            (
                2 * P * N * item / (3 * arrays),
                "partial is fp32 whatever the type of x: 4 bytes per element.",
            ),
            (P * N * item / (3 * arrays), "partial is fp32: 4 bytes per element; and it is written and read."),
            (2 * partial / (2 * arrays), "dx is written, so it moves bytes, too: x, dy and dx are three arrays."),
            (2 * partial / arrays, "x and dy are read and dx is written: three arrays."),
            (2 * partial / (3 * arrays + 2 * partial), "Divide by the bytes of x, dy and dx alone, not by the total."),
            (1 + expected, "That is the total, divided by the bytes of x, dy and dx: subtract 1."),
            (100 * expected, "That is a percentage: return the fraction."),
            (1 / expected, "That is the inverse: divide the bytes of partial by those of the arrays."),
            (2 * partial, "Those are the bytes of partial: divide by the bytes of x, dy and dx."),
            (2 * M * N * FP32 / (3 * arrays), "partial has one row for each of P programs, not for each row of x."),
            (2 * P * M * FP32 / (3 * arrays), "A row of partial has N elements, as many as dw."),
        ),
    )


def _sizes(M: int, N: int, P: int, item: int = 2) -> dict[str, int]:
    return {"M": M, "N": N, "P": P, "item": item}


register(
    PlainExercise(
        id="24_block_kernels/partial_share",
        title="The traffic of partial sums",
        entry="partial_share",
        points=Points(correct=1),
        reference=partial_share,
        explain=_explain,
        cases=(
            Case("264 programs, fp8", _sizes(8192, 4096, 264, 1)),  # first: here all mistakes give different numbers
            Case("264 programs, fp16", _sizes(8192, 4096, 264)),
            Case("one program per row, fp16", _sizes(8192, 4096, 8192)),
            Case("264 programs, fp32", _sizes(8192, 4096, 264, 4)),
            Case("132 programs, longer rows", _sizes(16_384, 5120, 132)),
            Case("few rows", _sizes(40, 64, 5)),
        ),
        draw=lambda rng: _sizes(
            rng.randrange(100, 20_000), rng.randrange(2, 9000), rng.randrange(1, 99), rng.choice([2, 4, 8])
        ),
    )
)
