"""Unit 09, second part: three kernels with bugs that were found in published teaching code."""

from __future__ import annotations

import torch

from ..spec.exercise import Case, Contract, Cost, KernelExercise, KnownMistake, Points, array, out, register
from ._cases import draw_blocks, draw_vector, vector_cases
from ._reduction_mistakes import total, tree_part
from .elementwise_triton import ROOT, _gelu

UNIT = "09_debugging"
BLOCK, RADIUS = 256, 3
"""Threads per block in the unit's launchers; elements on each side of a window."""


# --- a sum that counts elements several times ----------------------------------------------------------------------

SUM_MISTAKES = (
    KnownMistake(
        "missing-accumulation",
        "{name} holds only what the first 32 threads of each block loaded: start the tree at half of the block",
        lambda x: total(x[torch.arange(len(x), device=x.device) % BLOCK < 32]),
    ),
    KnownMistake(
        "missing-accumulation",
        "{name} holds only the first of the two elements of each iteration",
        tree_part(2 * BLOCK, lambda k: k < BLOCK),
    ),
    KnownMistake("wrong-formula", "{name} is the sum of |x|", lambda x: total(x.abs())),
    KnownMistake("first-block-only", "{name} is the sum of the first 512 elements", lambda x: total(x[: 2 * BLOCK])),
)

register(
    KernelExercise(
        id=f"{UNIT}/fix_sum",
        title="A sum with three bugs",
        entry="total",
        language="cuda",
        points=Points(correct=2),
        arguments={"x": array("n"), "out": out()},
        reference=total,
        magnitude=lambda x: total(x.abs()),
        contract=Contract(terms=lambda sizes: sizes["n"], any_order=True),
        cost=lambda sizes, item: Cost(item * sizes["n"], item, sizes["n"]),
        cases=(
            Case("one element", {"n": 1}),
            Case("n = 100, less than a block has threads", {"n": 100}, "position"),
            Case("n = 256", {"n": 256}, "position"),
            Case("n = 257, one more", {"n": 257}, "position"),
            Case("n = 511, one short of two blocks", {"n": 511}, "position"),
            Case("n = 512", {"n": 512}, "integers", exact=True),
            Case("n = 3000, values up to ten thousand", {"n": 3000}, "large"),
            Case("n = 5003, not aligned to 16 bytes", {"n": 5003}, "position", "offset"),
            Case("n = 40009, small integers, compared bit for bit", {"n": 40_009}, "integers", exact=True),
        ),
        draw=draw_blocks,
        tiny=Case("eight elements", {"n": 8}, "integers"),
        bench={"n": 2**28},
        library=torch.sum,
        known_mistakes=SUM_MISTAKES,
    )
)


# --- a window that reads past the ends -----------------------------------------------------------------------------


def _window(x, before: int = RADIUS, after: int = RADIUS, ends=(0.0, 0.0)) -> torch.Tensor:
    """Sums of x[i - before] … x[i + after]; `ends` stand for elements that do not exist."""
    padded = torch.cat([x.new_zeros(before) + ends[0], x, x.new_zeros(after) + ends[1]])
    return padded.unfold(0, before + after + 1, 1).sum(1)


def _no_halo(x) -> torch.Tensor:
    """With 0 in place of the elements of other blocks."""
    return torch.cat([_window(part) for part in x.split(BLOCK)])


register(
    KernelExercise(
        id=f"{UNIT}/fix_window",
        title="A window that reads past the ends",
        entry="window",
        language="cuda",
        points=Points(correct=2),
        arguments={"x": array("n"), "out": out("n")},
        reference=_window,
        magnitude=lambda x: _window(x.abs()),
        contract=Contract(terms=2 * RADIUS + 1),
        cost=lambda sizes, item: Cost(item * sizes["n"], item * sizes["n"], (2 * RADIUS + 1) * sizes["n"]),
        cases=(
            Case("one element", {"n": 1}),
            Case("three elements", {"n": 3}, "position"),
            Case("n = 100, less than a block", {"n": 100}, "position"),
            Case("n = 254: the right halo ends within the block", {"n": 254}, "position"),
            Case("n = 256, exactly one block", {"n": 256}, "position"),
            Case("n = 257, one more than a block", {"n": 257}, "position"),
            Case("n = 258", {"n": 258}, "integers", exact=True),
            Case("n = 1009, a prime, not aligned to 16 bytes", {"n": 1009}, "wide", "offset"),
            Case("n = 4096, many blocks", {"n": 4096}, "position"),
        ),
        draw=draw_blocks,
        tiny=Case("ten elements", {"n": 10}, "integers"),
        bench={"n": 2**27},
        known_mistakes=(
            KnownMistake("wrong-formula", "{name} uses 0 for elements of the neighboring blocks", _no_halo),
            KnownMistake(
                "wrong-formula",
                "{name} repeats the first and the last element past the ends; this exercise wants 0 there",
                lambda x: _window(x, ends=(x[0], x[-1])),
            ),
            KnownMistake(
                "wrong-formula", "{name} leaves out the last element of each window", lambda x: _window(x, after=2)
            ),
            KnownMistake(
                "wrong-formula", "{name} leaves out the first element of each window", lambda x: _window(x, before=2)
            ),
            KnownMistake("wrong-formula", "{name} is the mean of each window, not its sum", lambda x: _window(x) / 7),
        ),
    )
)


# --- a formula that overflows --------------------------------------------------------------------------------------


register(
    KernelExercise(
        id=f"{UNIT}/fix_gelu",
        title="A formula that overflows",
        entry="gelu",
        points=Points(correct=1),
        arguments={"x": array("n"), "out": out("n")},
        reference=_gelu,
        magnitude=lambda x: x.abs(),
        contract=Contract(terms=8),
        cost=lambda sizes, item: Cost(item * sizes["n"], item * sizes["n"], 12 * sizes["n"]),
        cases=vector_cases(half=False),
        draw=draw_vector,
        tiny=Case("eight elements", {"n": 8}),
        bench={"n": 2**27},
        library=lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
        known_mistakes=(
            KnownMistake("wrong-formula", "{name} is missing the factor 1/2", lambda x: 2 * _gelu(x)),
            KnownMistake("wrong-formula", "{name} uses exp(u) in place of exp(2·u)", lambda x: _gelu(x, root=ROOT / 2)),
            KnownMistake(
                "wrong-formula",
                "{name} is 0 for large x: tanh is 1 there, not -1",
                lambda x: torch.where(x > 5, 0.0, _gelu(x)),
            ),
        ),
    )
)
