"""Unit 24, kernels: the backward pass of RMSNorm, with the weight's gradient in two stages."""

from __future__ import annotations

import torch

from ..spec.exercise import Bound, Case, Contract, Cost, KernelExercise, KnownMistake, Points, array, out, register
from .fusion_norms import IN_FP16, RMS_EPS, by_row, in_fp16, large_value_cases, wrong

UNIT = "24_block_kernels"


def _scale(x, eps=RMS_EPS):
    """1 / root mean square of each row, (M, 1)."""
    return torch.rsqrt((x**2).mean(1, keepdim=True) + eps)


def gradients(x, w, dy):
    """dx (M, N) and dw (N,) of y = x · r · w, where r is `_scale(x)`."""
    r, g = _scale(x), dy * w
    return {"dx": r * (g - x * r**2 * (g * x).mean(1, keepdim=True)), "dw": (dy * x * r).sum(0)}


def _magnitude(x, w, dy):
    r, g = _scale(x), (dy * w).abs()
    x = x.abs()
    return {"dx": r * (g + x * r**2 * (g * x).mean(1, keepdim=True)), "dw": (dy.abs() * x * r).sum(0)}


# --- common mistakes -----------------------------------------------------------------------------------------------


def _dx(sentence: str, change, kind: str = "wrong-formula") -> KnownMistake:
    """`change(x, w, dy, r)` gives a wrong dx."""
    return wrong(sentence, lambda x, w, dy: {"dx": change(x, w, dy, _scale(x))}, kind)


def _dw(sentence: str, change, kind: str = "wrong-formula") -> KnownMistake:
    """`change(x, w, dy, r)` gives a wrong dw."""
    return wrong(sentence, lambda x, w, dy: {"dw": change(x, w, dy, _scale(x))}, kind)


def _corrected(x, w, dy, r, *, of=lambda x, w, dy, r: dy * w * x, power=3, count=None, sign=-1.0):
    """dx with another correction: sign · x · r^power · Σ of(…) / count."""
    total = of(x, w, dy, r).sum(1, keepdim=True) / (count or x.shape[1])
    return r * dy * w + sign * x * r**power * total


def _width(x) -> int:
    return 1 << (x.shape[1] - 1).bit_length()


def _only(rows):
    """dw of some of the rows; `rows(M)` is an index."""
    return lambda x, w, dy, r: (dy * x * r)[rows(len(x))].sum(0)


def _from_program(x, w, dy, r, programs: int, program: int):
    return (dy * x * r)[program::programs].sum(0)


def programs_of(M: int) -> int:
    """What the launcher starts without a GPU: 2 to 8 programs."""
    return min(M, max(-(-M // 8), 2), 8)


MISTAKES = (
    _dx("dx lacks the term −x · r³ · mean(dy · w · x): r also depends on x", lambda x, w, dy, r: r * dy * w),
    _dx("the second term of dx is added; subtract it", lambda x, w, dy, r: _corrected(x, w, dy, r, sign=1.0)),
    _dx(
        "the second term of dx lacks the weight: the mean is that of dy · w · x",
        lambda x, w, dy, r: _corrected(x, w, dy, r, of=lambda x, w, dy, r: dy * x),
    ),
    _dx(
        "the second term of dx is multiplied by the weight: there, w belongs inside the mean only",
        lambda x, w, dy, r: r * dy * w - x * w * r**3 * (dy * w * x).mean(1, keepdim=True),
    ),
    _dx(
        "w is missing from dx: the gradient of the normalized row is dy · w",
        lambda x, w, dy, r: _corrected(x, torch.ones_like(w), dy, r),
    ),
    _dx("the sum of dy · w · x is not divided by N", lambda x, w, dy, r: _corrected(x, w, dy, r, count=1)),
    _dx(
        "the sum of dy · w · x is divided by BLOCK_N; divide by N",
        lambda x, w, dy, r: _corrected(x, w, dy, r, count=_width(x)),
        "padded-lanes",
    ),
    *(
        _dx(
            f"the second term of dx has {power}; it needs r³",
            lambda x, w, dy, r, n=n: _corrected(x, w, dy, r, power=n),
        )
        for n, power in ((1, "r"), (2, "r²"))
    ),
    _dx(
        "the mean is that of dy · w: multiply by x before you sum",
        lambda x, w, dy, r: _corrected(x, w, dy, r, of=lambda x, w, dy, r: dy * w),
    ),
    _dx(
        "the second term of dx lacks the factor x",
        lambda x, w, dy, r: r * dy * w - r**3 * (dy * w * x).mean(1, keepdim=True),
    ),
    _dx(
        "dx is not multiplied by r: r · (dy · w − …)",
        lambda x, w, dy, r: dy * w - x * r**2 * (dy * w * x).mean(1, keepdim=True),
    ),
    _dx(
        "dx is the output of the forward pass, times dy: the derivative is needed",
        lambda x, w, dy, r: x * r * w * dy,
    ),
    wrong("eps is missing under the root", lambda x, w, dy: _without_eps(x, w, dy)),
    wrong(IN_FP16, lambda x, w, dy: _squares_in_fp16(x, w, dy), "precision"),
    wrong("the mean square divides by BLOCK_N; divide by N", lambda x, w, dy: _block_mean(x, w, dy), "padded-lanes"),
    wrong(
        "the weight is used by row, not by column",
        lambda x, w, dy: {"dx": _corrected(x, by_row(w, x), dy, _scale(x))},
        "transposed",
    ),
    _dx(
        "every row of dx is the result of row 0",
        lambda x, w, dy, r: gradients(x[:1], w, dy[:1])["dx"].expand_as(x),
        "first-block-only",
    ),
    _dw("dw is not multiplied by r: it is the sum of dy · x · r", lambda x, w, dy, r: (dy * x).sum(0)),
    _dw("dw is the sum of dy: multiply by the normalized x · r first", lambda x, w, dy, r: dy.sum(0)),
    _dw(
        "dw is multiplied by w: y is linear in w, so w is not in its gradient",
        lambda x, w, dy, r: (dy * x * r * w).sum(0),
    ),
    _dw("dw lacks dy: it is the sum of dy · x · r", lambda x, w, dy, r: (x * r).sum(0)),
    _dw("dw is divided by the number of rows; it is a sum", lambda x, w, dy, r: (dy * x * r).mean(0)),
    _dw("dw is multiplied by r twice", lambda x, w, dy, r: (dy * x * r * r).sum(0)),
    _dw("dw is the sum of dx", lambda x, w, dy, r: gradients(x, w, dy)["dx"].sum(0)),
    _dw("dw holds only the last row", _only(lambda M: slice(M - 1, M)), "missing-accumulation"),
    _dw("dw holds only the first row", _only(lambda M: slice(0, 1)), "missing-accumulation"),
    _dw(
        "dw holds only the last row of each program: add the rows up in the loop",
        _only(lambda M: slice(max(M - programs_of(M), 0), M)),
        "missing-accumulation",
    ),
    *(
        _dw(
            "dw holds the rows of one program only: the second kernel adds up the partial sums of all programs",
            lambda x, w, dy, r, last=last: _from_program(
                x, w, dy, r, programs_of(len(x)), programs_of(len(x)) - 1 if last else 0
            ),
            "missing-accumulation",
        )
        for last in (False, True)
    ),
    _dw(
        "dw lacks the rows of the last program",
        lambda x, w, dy, r: (
            (dy * x * r).sum(0) - _from_program(x, w, dy, r, programs_of(len(x)), programs_of(len(x)) - 1)
        ),
        "missing-accumulation",
    ),
)


def _without_eps(x, w, dy):
    r = _scale(x, 0.0)
    return {"dx": _corrected(x, w, dy, r), "dw": (dy * x * r).sum(0)}


def _squares_in_fp16(x, w, dy):
    r = torch.rsqrt(in_fp16(x**2).mean(1, keepdim=True) + RMS_EPS)
    return {"dx": _corrected(x, w, dy, r), "dw": (dy * x * r).sum(0)}


def _block_mean(x, w, dy):
    r = torch.rsqrt((x**2).sum(1, keepdim=True) / _width(x) + RMS_EPS)
    return {"dx": _corrected(x, w, dy, r), "dw": (dy * x * r).sum(0)}


# --- the exercise --------------------------------------------------------------------------------------------------


def _cost(sizes, item) -> Cost:
    M, N = sizes["M"], sizes["N"]
    return Cost(item * (2 * M * N + N), item * (M * N + N), 12 * M * N)


def _draw(rng) -> dict[str, int]:
    columns = [rng.randrange(2, 200), 2 ** rng.randrange(5, 10) + rng.choice([-1, 1]), rng.randrange(300, 1200)]
    return {"M": rng.randrange(20, 90), "N": rng.choice(columns)}


register(
    KernelExercise(
        id=f"{UNIT}/rms_norm_backward",
        title="RMSNorm, backward",
        entry="rms_norm_backward",
        points=Points(
            correct=5,
            bounds=(
                Bound("bytes moved, relative to the minimum", "moved_bytes", "compulsory_bytes", at_most=1.25),
                Bound("atomic operations", "atomics", at_most=0),
            ),
        ),
        arguments={
            "x": array("M", "N"),
            "w": array("N"),
            "dy": array("M", "N"),
            "dx": out("M", "N"),
            "dw": out("N"),
        },
        reference=gradients,
        magnitude=_magnitude,
        contract=Contract(terms=lambda sizes: 32 + sizes["N"] // 32 + sizes["M"]),
        cost=_cost,
        cases=(
            Case("2 × 3", {"M": 2, "N": 3}, "position"),
            Case("one element", {"M": 1, "N": 1}),
            Case("70 × 1, a single column, wide range", {"M": 70, "N": 1}, "wide"),
            Case("9 × 127, one short of a power of two", {"M": 9, "N": 127}, "position"),
            Case("20 × 128, a power of two", {"M": 20, "N": 128}),
            Case("30 × 129, one more than a power of two", {"M": 30, "N": 129}, "position"),
            Case("70 × 115, padded rows", {"M": 70, "N": 115}, "position", "padded"),
            Case("12 × 700, values up to ten thousand", {"M": 12, "N": 700}, "large"),
            Case("33 × 243, wide range", {"M": 33, "N": 243}, "wide"),
            Case("19 × 997, a prime, not aligned to 16 bytes", {"M": 19, "N": 997}, layout="offset"),
            *large_value_cases(40, 26),
            Case("200 × 255, many rows", {"M": 200, "N": 255}, "position"),
        ),
        draw=_draw,
        tiny=Case("3 rows of 4", {"M": 3, "N": 4}, "integers"),
        bench={"M": 8192, "N": 4096},
        known_mistakes=MISTAKES,
    )
)
