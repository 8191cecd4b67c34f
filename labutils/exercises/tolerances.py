"""Unit 04, second part: how far correct results may differ, and a comparison that uses it."""

from __future__ import annotations

import math

import torch

from ..spec.exercise import Case, PlainExercise, Points, register
from ..spec.precision import ROUND_OFF
from ._numbers import near, sentence_for

UNIT = "04_tolerances"
U = {"fp32": ROUND_OFF["float32"], "fp16": ROUND_OFF["float16"], "bf16": ROUND_OFF["bfloat16"]}

# --- the tolerance of one element ----------------------------------------------------------------------------------


def tolerance(terms, magnitude, expected, accumulate, stored) -> float:
    """[min(n, 8·√n)]·u_acc·magnitude + u_out·|expected|: `Contract.tolerance` without what concerns operands."""
    return min(terms, 8 * math.sqrt(terms)) * U[accumulate] * magnitude + U[stored] * abs(expected)


def _explain_tolerance(sizes, yours, expected) -> str | None:
    n, magnitude, y = sizes["terms"], sizes["magnitude"], abs(sizes["expected"])
    acc, out = U[sizes["accumulate"]], U[sizes["stored"]]
    growth = min(n, 8 * math.sqrt(n))
    wrong = [
        (growth * acc * magnitude, "Storing the result rounds it once more: add u(stored) · |expected|."),
        (growth * acc * magnitude + out * sizes["expected"], "A tolerance is positive: use abs(expected)."),
        (growth * acc * y + out * y, "Rounding errors of a sum scale with magnitude, the sum of |terms|. "
         "Terms can cancel, so that |expected| is much smaller."),
        (n * acc * magnitude + out * y, "For many terms the errors partly cancel: use 8 · √terms where it is smaller "
         "than terms."),
        (8 * math.sqrt(n) * acc * magnitude + out * y, "For fewer than 64 terms, `terms` itself is smaller than "
         "8 · √terms: take the minimum."),
        (math.sqrt(n) * acc * magnitude + out * y, "The factor is 8 · √terms, or `terms` if that is smaller."),
        (acc * magnitude + out * y, "Each of the additions rounds: multiply by min(terms, 8 · √terms)."),
        (growth * out * magnitude + acc * y, "The accumulator's u belongs to the sum, the stored format's u to the "
         "last rounding."),
        (growth * out * magnitude + out * y, "The additions round to the accumulator's format."),
        (growth * acc * magnitude + acc * y, "The last rounding is to the stored format."),
        (2 * expected, "u is half of the distance between neighbors: 2^-24 for fp32, 2^-11 for fp16, 2^-8 for bf16."),
    ]  # fmt: skip
    return sentence_for(yours, [(value, text) for value, text in wrong if not near(value, expected)])


def _element(terms, magnitude, expected, accumulate="fp32", stored="fp32") -> dict:
    return {
        "terms": terms,
        "magnitude": magnitude,
        "expected": expected,
        "accumulate": accumulate,
        "stored": stored,
    }


register(
    PlainExercise(
        id=f"{UNIT}/tolerance",
        title="How far may one element be off?",
        entry="tolerance",
        points=Points(correct=2),
        reference=tolerance,
        explain=_explain_tolerance,
        cases=(
            Case("1024 terms, fp32", _element(1024, 800.0, 25.0)),
            Case("16 terms: fewer than 64", _element(16, 12.0, -3.0)),
            Case("4096 terms, stored in fp16", _element(4096, 3000.0, -40.0, stored="fp16")),
            Case("1024 terms that cancel", _element(1024, 800.0, 0.001)),
            Case("an accumulator in fp16", _element(256, 200.0, 10.0, "fp16", "fp16")),
            Case("stored in bf16", _element(8192, 6000.0, 100.0, stored="bf16")),
            Case("one term: a copy in bf16", _element(1, 2.0, 2.0, stored="bf16")),
        ),
        draw=lambda rng: _element(
            rng.choice([rng.randrange(2, 60), rng.randrange(100, 20_000)]),
            rng.uniform(10, 5000),
            rng.uniform(-10, 10),
            rng.choice(["fp32", "fp16"]),
            rng.choice(["fp16", "bf16"]),
        ),
    )
)


# --- a comparison --------------------------------------------------------------------------------------------------

HONEST, ANOTHER_ORDER, CANCELS, SMALL, NOT_A_NUMBER, INFINITE, NEGATIVE = (
    "a correct kernel", "a correct kernel that adds in another order", "a correct kernel whose terms cancel",
    "a correct kernel with very small numbers", "NaN where NaN is right", "infinity where infinity is right",
    "minus infinity where minus infinity is right",
)  # fmt: skip
LOST, HALF, NAN, FAR, SMALL_LOST, WRONG_INFINITY, WRONG_NEGATIVE = (
    "a kernel that leaves out one term", "a kernel whose accumulator is fp16", "NaN where a number is right",
    "a kernel with one wrong element", "a kernel that leaves out a term of very small numbers",
    "infinity where a number is right", "minus infinity where a number is right",
)  # fmt: skip
FOR_NAN, INFINITY_FOR_NAN, FOR_INFINITY, FOR_NEGATIVE, NAN_FOR_INFINITY, OTHER_SIGN, POSITIVE, LATER, SHORT = (
    "a number where NaN is right", "infinity where NaN is right", "a number where infinity is right",
    "a number where minus infinity is right", "NaN where infinity is right", "minus infinity where infinity is right",
    "infinity where minus infinity is right", "a wrong element after a right NaN and a right infinity",
    "too few elements",
)  # fmt: skip
RIGHT = (HONEST, ANOTHER_ORDER, CANCELS, SMALL, NOT_A_NUMBER, INFINITE, NEGATIVE)
WRONG = (
    LOST, HALF, NAN, FAR, SMALL_LOST, WRONG_INFINITY, WRONG_NEGATIVE, FOR_NAN, INFINITY_FOR_NAN, FOR_INFINITY,
    FOR_NEGATIVE, NAN_FOR_INFINITY, OTHER_SIGN, POSITIVE, LATER, SHORT,
)  # fmt: skip
KINDS = (*RIGHT, *WRONG)
SPECIAL = {
    NOT_A_NUMBER: (math.nan, math.nan), INFINITE: (math.inf, math.inf), NEGATIVE: (-math.inf, -math.inf),
    NAN: (math.nan, None), WRONG_INFINITY: (math.inf, None), WRONG_NEGATIVE: (-math.inf, None),
    FOR_NAN: (None, math.nan), INFINITY_FOR_NAN: (math.inf, math.nan), FOR_INFINITY: (None, math.inf),
    FOR_NEGATIVE: (None, -math.inf), NAN_FOR_INFINITY: (math.nan, math.inf), OTHER_SIGN: (-math.inf, math.inf),
    POSITIVE: (math.inf, -math.inf),
}  # fmt: skip
"""For each kind with one element that is not finite: the kernel's result there and the right one; None leaves the
sum."""
ROWS = 24


def row_sums(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Row sums in this format, one term after another, as a thread would add them."""
    total = torch.zeros(len(x), dtype=dtype)
    for column in x.T.to(dtype):
        total = total + column
    return total


def _results(kind: int, terms: int, seed: int) -> dict:
    """Arguments of `agree`: results of a simulated kernel of this kind, and what they are compared with."""
    name, g = KINDS[kind], torch.Generator().manual_seed(seed)
    x = torch.randn(ROWS, terms, generator=g, dtype=torch.float64).float()
    if name == CANCELS:
        x[:, terms // 2 :] = -x[:, : terms - terms // 2].flip(1) * (1 + 1e-6)
    if name in (SMALL, SMALL_LOST):
        x *= 1e-9
    row, column = (int(torch.randint(0, n, (), generator=g)) for n in (ROWS, terms))
    if name in (LOST, SMALL_LOST):
        x[row, column] = x.abs().max()  # a term that is large enough to be missed
    expected, magnitude = x.double().sum(1), x.double().abs().sum(1)
    order = torch.randperm(terms, generator=g) if name == ANOTHER_ORDER else torch.arange(terms)
    kept = x[:, order].clone()
    if name in (LOST, SMALL_LOST):
        kept[row, column] = 0
    yours = row_sums(kept, torch.float16 if name == HALF else torch.float32).double()
    if name == LATER:
        row = max(row, 2)
        for k, special in enumerate((math.nan, math.inf)):
            _put(k, special, special, yours, expected, magnitude)
    if name in (FAR, LATER):
        yours[row] = -expected[row] - torch.sign(expected[row])
    if name in SPECIAL:
        _put(row, *SPECIAL[name], yours, expected, magnitude)
    found = {"yours": yours.tolist(), "expected": expected.tolist(), "magnitude": magnitude.tolist(), "terms": terms}
    if name == SHORT:
        found["yours"].pop()
    return found


def _put(row: int, result: float | None, right: float | None, yours, expected, magnitude) -> None:
    """Make one element not finite: what the kernel gives, what is right, or both."""
    if result is not None:
        yours[row] = result
    if right is not None:
        expected[row] = right
        magnitude[row] = math.nan if math.isnan(right) else math.inf


WHY = {
    HONEST: "Its largest error is below the tolerance of its element.",
    ANOTHER_ORDER: "The order of additions changes the last bits. It must not change the verdict.",
    CANCELS: "The results are close to 0, so relative errors are large. Scale the tolerance with magnitude.",
    SMALL: "All numbers are about 1e-9. Scale the tolerance with magnitude; a fixed one has no meaning.",
    NOT_A_NUMBER: "Where NaN is expected, NaN is right. NaN != NaN, so handle it before you compare.",
    INFINITE: "inf - inf is NaN: handle equal infinities before you subtract.",
    NEGATIVE: "-inf - -inf is NaN: handle equal infinities before you subtract.",
    LOST: "One element differs by more than its tolerance. A fixed or larger tolerance hides it.",
    HALF: "Its errors are a few thousandths: too large for an accumulator in fp32.",
    NAN: "Comparisons with NaN are False. Ask whether the error is within the tolerance, not whether it exceeds it.",
    FAR: "A single wrong element is enough: look at all of them, not at their mean.",
    SMALL_LOST: "All numbers are about 1e-9: an absolute tolerance such as 1e-8 accepts anything.",
    WRONG_INFINITY: "The error is infinite, which no tolerance allows.",
    WRONG_NEGATIVE: "The error is infinite, which no tolerance allows.",
    FOR_NAN: "Where NaN is expected, only NaN is right: test whether both are NaN.",
    INFINITY_FOR_NAN: "Where NaN is expected, only NaN is right: an infinity is not.",
    FOR_INFINITY: "The tolerance of an infinite expected value is infinite, so that any number is within it. Handle "
    "infinite expected values before you compare with the tolerance.",
    FOR_NEGATIVE: "The tolerance of an infinite expected value is infinite, so that any number is within it. Handle "
    "infinite expected values, of both signs, before you compare with the tolerance.",
    NAN_FOR_INFINITY: "Where an infinity is expected, only the same infinity is right: NaN is not.",
    OTHER_SIGN: "Infinities are equal only if their signs are.",
    POSITIVE: "Infinities are equal only if their signs are.",
    LATER: "A right NaN or infinity decides about its own element only: go on with the elements after it.",
    SHORT: "`zip` stops at the shorter list: compare the lengths, too.",
}


def _examine_agree(sizes, arguments, yours) -> tuple[str, str] | None:
    name = KINDS[sizes["kind"]]
    if not isinstance(yours, bool):
        return f"agree returned {str(yours)[:60]}", "Return True or False."
    if yours == (name in RIGHT):
        return None
    return f"{name} ({sizes['terms']} terms) was {'accepted' if yours else 'rejected'}", WHY[name]


register(
    PlainExercise(
        id=f"{UNIT}/agree",
        title="Compare results with a reference",
        entry="agree",
        points=Points(correct=3),
        make=_results,
        examine=_examine_agree,
        cases=tuple(
            Case(f"{name}, {terms} terms", {"kind": kind, "terms": terms, "seed": 7 + kind})
            for kind, name in enumerate(KINDS)
            for terms in ((1000,) if kind else (4, 1000))
        ),
        draw=lambda rng: {
            "kind": rng.randrange(len(KINDS)),
            "terms": rng.randrange(300, 2000),
            "seed": rng.randrange(100, 10**6),
        },
    )
)
