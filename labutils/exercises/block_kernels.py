"""Unit 24, kernels: rotary position embedding of queries and keys, forward and backward."""

from __future__ import annotations

import torch

from ..spec.exercise import (
    Bound,
    Case,
    Contract,
    Cost,
    KernelExercise,
    KnownMistake,
    Number,
    Points,
    array,
    out,
    register,
)
from .fusion_norms import wrong

UNIT = "24_block_kernels"
BASE, FIRST = 10_000.0, 5
"""Pair i of position t turns by t · BASE^(-2i/D); the tables begin at position FIRST, so that every token turns."""


def angles(positions: int, half: int) -> torch.Tensor:
    """(positions, half), float64."""
    frequency = BASE ** -(torch.arange(half, dtype=torch.float64) / half)
    return (FIRST + torch.arange(positions, dtype=torch.float64))[:, None] * frequency


def rotated(x, cos, sin):
    """x (B, T, H, D) with pair (i, i + D/2) rotated; cos and sin have a shape that broadcasts to (B, T, H, D/2)."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def _positions(B: int, T: int):
    """Rows of the tables, (B, T)."""
    return torch.arange(T).expand(B, T)


def of_both(change, rows=_positions):
    """A reference from `change(x, cos, sin)`, applied to q and k; the backward pass has the negative angle.

    cos and sin come as (B, T, 1, D/2): of the table's rows `rows(B, T)`.
    """

    def compute(q, k, cos, sin, backward):
        at = rows(*q.shape[:2]).clamp(max=len(cos) - 1)
        cos, sin = cos[at][:, :, None], (-sin if backward else sin)[at][:, :, None]
        return {"q_out": change(q, cos, sin), "k_out": change(k, cos, sin)}

    return compute


# --- common mistakes -----------------------------------------------------------------------------------------------


def _interleaved(x, cos, sin):
    """The other layout: pairs of neighbors (2i, 2i + 1)."""
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)


def _mixed(x, cos, sin):
    """Reads pairs of neighbors, writes halves."""
    return rotated(torch.cat([x[..., 0::2], x[..., 1::2]], -1), cos, sin)


def _combined(first, second):
    """Other signs: first(a·cos, b·sin) and second(b·cos, a·sin)."""

    def change(x, cos, sin):
        a, b = x.chunk(2, -1)
        return torch.cat([first(a * cos, b * sin), second(b * cos, a * sin)], -1)

    return change


def _overwritten(x, cos, sin):
    a, b = x.chunk(2, -1)
    a = a * cos - b * sin
    return torch.cat([a, b * cos + a * sin], -1)


def _spread(table):
    """Each angle twice, as the interleaved layout needs them, cut to D/2."""
    return table.repeat_interleave(2, -1)[..., : table.shape[-1]]


def _mistake(sentence: str, change, kind: str = "wrong-formula") -> KnownMistake:
    return wrong(sentence, of_both(change), kind)


def _misplaced(sentence: str, rows) -> KnownMistake:
    return wrong(sentence, of_both(rotated, rows))


MISTAKES = (
    _mistake(
        "{name} has the interleaved layout: it rotates neighbors (2i, 2i + 1); rotate element i with element i + D/2",
        _interleaved,
    ),
    _mistake("pairs are read as neighbors (2i, 2i + 1), but written as halves: read halves too", _mixed),
    _mistake(
        "{name} is rotated in the wrong direction: check the sign of sin, in the forward and in the backward pass",
        lambda x, cos, sin: rotated(x, cos, -sin),
    ),
    _mistake(
        "{name} has the wrong sign: the negative angle has the same cos, and −sin",
        lambda x, cos, sin: -rotated(x, cos, sin),
    ),
    _mistake(
        "both halves subtract: the second half of {name} is b · cos + a · sin",
        _combined(torch.sub, torch.sub),
    ),
    _mistake("both halves add: the first half of {name} is a · cos − b · sin", _combined(torch.add, torch.add)),
    _mistake(
        "the second half of {name} uses the new first half: keep the old value until both are computed", _overwritten
    ),
    _mistake("{name} is not rotated", lambda x, cos, sin: x),
    _mistake("cos and sin are swapped", lambda x, cos, sin: rotated(x, sin, cos)),
    _misplaced(
        "every token of {name} has the angles of position 0: the row of cos and sin depends on the token",
        lambda B, T: torch.zeros(B, T, dtype=torch.int64),
    ),
    _misplaced(
        "positions of {name} continue from one sequence to the next: each sequence starts at position 0, token % T",
        lambda B, T: torch.arange(B * T).view(B, T),
    ),
    _misplaced(
        "rows of cos and sin have D/2 elements; this steps by D",
        lambda B, T: 2 * _positions(B, T),
    ),
    _misplaced(
        "{name} has the angles of the sequence's index, token // T, not of the token's position: token % T",
        lambda B, T: torch.arange(B)[:, None].expand(B, T),
    ),
    _mistake(
        "{name} has each angle twice, as the interleaved layout needs them: element i has angle i",
        lambda x, cos, sin: rotated(x, _spread(cos), _spread(sin)),
    ),
    _mistake("sin is missing", lambda x, cos, sin: rotated(x, cos, torch.zeros_like(sin))),
    _mistake(
        "every pair of {name} has the angle of pair 0",
        lambda x, cos, sin: rotated(x, cos[..., :1], sin[..., :1]),
    ),
    _mistake(
        "every head of {name} is the result of head 0",
        lambda x, cos, sin: rotated(x[:, :, :1], cos, sin).expand_as(x),
        "first-block-only",
    ),
    _mistake(
        "every token of {name} is the result of token 0",
        lambda x, cos, sin: rotated(x[:1, :1], cos[:1, :1], sin[:1, :1]).expand_as(x),
        "first-block-only",
    ),
    _mistake(
        "all sequences of {name} are the first one",
        lambda x, cos, sin: rotated(x[:1], cos[:1], sin[:1]).expand_as(x),
        "first-block-only",
    ),
)


# --- the exercise --------------------------------------------------------------------------------------------------


def sizes_of(B: int, T: int, H: int, K: int, D: int, backward: int = 0, P: int = 0) -> dict[str, int]:
    """F = D/2 pairs of a head; the tables have P rows, by default so many that mistakes do not read past their end."""
    return {"B": B, "T": T, "H": H, "K": K, "D": D, "F": D // 2, "P": P or 2 * B * T + 1, "backward": backward}


def _cost(sizes, item) -> Cost:
    elements = sizes["B"] * sizes["T"] * (sizes["H"] + sizes["K"]) * sizes["D"]
    return Cost(item * elements + 8 * sizes["T"] * sizes["F"], item * elements, 3 * elements)


def _draw(rng) -> dict[str, int]:
    group, K = rng.choice([1, 2, 3, 4]), rng.randrange(1, 5)
    D = 2 * rng.choice([rng.randrange(1, 40), 8, 32, 64])
    return sizes_of(rng.randrange(1, 4), rng.randrange(5, 10), group * K, K, D, rng.randrange(2))


def eager(q, k, cos, sin, backward):
    """As models write it in PyTorch: x · cos + rotate_half(x) · sin, with tables of D columns."""
    T = q.shape[1]
    table = [torch.cat([t, t], -1)[:T].to(q.dtype)[:, None] for t in (cos, -sin if backward else sin)]

    def rotate(x):
        a, b = x.chunk(2, -1)
        return x * table[0] + torch.cat([-b, a], -1) * table[1]

    return rotate(q), rotate(k)


register(
    KernelExercise(
        id=f"{UNIT}/rope",
        title="Rotary position embedding",
        entry="rope",
        points=Points(
            correct=4,
            bounds=(Bound("bytes moved, relative to the minimum", "moved_bytes", "compulsory_bytes", at_most=1.1),),
        ),
        arguments={
            "q": array("B", "T", "H", "D"),
            "k": array("B", "T", "K", "D"),
            "cos": array("P", "F", fill=lambda sizes, g: angles(sizes["P"], sizes["F"]).cos(), dtype="float32"),
            "sin": array("P", "F", fill=lambda sizes, g: angles(sizes["P"], sizes["F"]).sin(), dtype="float32"),
            "backward": Number("backward"),
            "q_out": out("B", "T", "H", "D"),
            "k_out": out("B", "T", "K", "D"),
        },
        reference=of_both(rotated),
        magnitude=of_both(lambda x, cos, sin: _combined(torch.add, torch.add)(x.abs(), cos.abs(), sin.abs())),
        contract=Contract(terms=4),
        cost=_cost,
        cases=(
            Case("one token, one head of 2", sizes_of(1, 1, 1, 1, 2)),
            Case("3 tokens, 6 heads of 4, 3 of keys", sizes_of(1, 3, 6, 3, 4), "position"),
            Case("2 sequences of 3 tokens, heads of 8", sizes_of(2, 3, 2, 2, 8), "position"),
            Case("the same, backward", sizes_of(2, 3, 2, 2, 8, 1), "position"),
            Case("3 sequences of 1 token, heads of 16", sizes_of(3, 1, 4, 2, 16), "position"),
            Case("heads of 80, whose half is no power of two", sizes_of(1, 4, 6, 2, 80, P=4), "position"),
            Case("5 heads of queries, 5 of keys, backward", sizes_of(2, 4, 5, 5, 32, 1)),
            Case("wide range", sizes_of(2, 5, 3, 1, 16), "wide"),
            Case("values up to ten thousand, backward", sizes_of(1, 4, 4, 4, 64, 1), "large"),
            Case("not aligned to 16 bytes", sizes_of(2, 3, 4, 2, 64), layout="offset"),
            Case("40 heads of queries, 8 of keys, fp16", sizes_of(1, 5, 40, 8, 128), dtype="float16"),
            Case("12 heads of queries, 4 of keys, bf16, backward", sizes_of(2, 3, 12, 4, 64, 1), dtype="bfloat16"),
            Case("4 sequences of 9 tokens", sizes_of(4, 9, 8, 2, 64), "position"),
        ),
        draw=_draw,
        tiny=Case("2 tokens, one head of 4", sizes_of(1, 2, 1, 1, 4), "integers"),
        bench=sizes_of(4, 2048, 32, 8, 128),
        library=eager,
        known_mistakes=MISTAKES,
    )
)
