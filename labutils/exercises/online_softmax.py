"""Unit 12: the online softmax, along a row, over parts of a row in two launches, and in one.

As in unit 11, a row that is all -inf becomes NaN. Its log-sum-exp is -inf.
"""

import math

import torch

from ..spec.exercise import (
    Bound,
    Case,
    Contract,
    Cost,
    KernelExercise,
    KnownMistake,
    PlainExercise,
    Points,
    array,
    out,
    register,
)
from ._numbers import near
from .softmax import KNOWN_MISTAKES, known, magnitude, terms

LOOP, PART = 4096, 8192
"""Elements per block in the launchers: of the loop along a row, and of a part."""


# --- the update ----------------------------------------------------------------------------------------------------


def _merged_sum(m1, l1, m2, l2):
    m = max(m1, m2)
    return 0.0 if m == -math.inf else l1 * math.exp(m1 - m) + l2 * math.exp(m2 - m)


def _explain_merge(sizes, yours, expected) -> str | None:
    m1, l1, m2, l2 = (sizes[k] for k in ("m1", "l1", "m2", "l2"))
    if isinstance(yours, float) and math.isnan(yours):
        return "-inf − -inf is NaN: handle two parts that are all -inf separately."

    m, finite = max(m1, m2), math.isfinite(m1) and math.isfinite(m2)
    if near(yours, l1 + l2):
        return "l₁ and l₂ are relative to different maxima: rescale both to the new one before you add them."
    if near(yours, max(l1, l2)):
        return "Add the sums; only the maximum is the larger of the two."
    if not finite:
        return None
    if abs(m) < 300 and near(yours, l1 * math.exp(m1) + l2 * math.exp(m2)):
        return "That is relative to 0, not to the new maximum, and overflows for a large maximum."
    if abs(m1 - m2) < 300 and near(yours, l1 * math.exp(m - m1) + l2 * math.exp(m - m2)):
        return "The factor is inverted: exp(x − m) = exp(x − m₁) · exp(m₁ − m)."
    if near(yours, l1 * math.exp(m1 - m) + l2) or near(yours, l1 + l2 * math.exp(m2 - m)):
        return "This rescales only one of the two parts. Which of them has the smaller maximum?"
    return None


def _merge(name, m1, l1, m2, l2):
    return Case(name, {"m1": m1, "l1": l1, "m2": m2, "l2": l2})


register(
    PlainExercise(
        id="12_online_softmax/merged_sum",
        title="Merge the sums of two parts",
        entry="merged_sum",
        points=Points(correct=1),
        reference=_merged_sum,
        explain=_explain_merge,
        cases=(
            _merge("equal maxima", 1.0, 2.0, 1.0, 3.0),
            _merge("the first part has the larger maximum", 3.0, 1.5, 1.0, 2.0),
            _merge("the second part has the larger maximum", 1.0, 2.0, 4.0, 1.25),
            _merge("maxima far below zero", -800.0, 2.0, -801.0, 5.0),
            _merge("a maximum of ten thousand", 1e4, 1.0, -1e4, 7.0),
            _merge("left part all -inf", -math.inf, 0.0, 2.0, 1.5),
            _merge("right part all -inf", 2.0, 1.5, -math.inf, 0.0),
            _merge("both parts all -inf", -math.inf, 0.0, -math.inf, 0.0),
        ),
        draw=lambda rng: {
            "m1": rng.uniform(-50, 50),
            "l1": rng.uniform(1, 9),
            "m2": rng.uniform(-50, 50),
            "l2": rng.uniform(1, 9),
        },
    )
)


# --- known mistakes ----------------------------------------------------------------------------------------------


def _blocks(x, block: int):
    """The row in blocks, padded with -inf: (M, blocks, block)."""
    filled = torch.nn.functional.pad(x, (0, -x.shape[1] % block), value=-torch.inf)
    return filled.reshape(len(x), -1, block)


def _sums(x, block: int):
    """Maximum and sum of each block, (M, blocks) each; the sum of a block that is all -inf is 0."""
    parts = _blocks(x, block)
    m = parts.amax(2)
    shift = torch.where(m == -torch.inf, 0.0, m)
    return m, torch.exp(parts - shift[..., None]).sum(2)


def _with_sum(x, total):
    """y with a wrong sum, relative to the right maximum."""
    return torch.exp(x - x.amax(1, keepdim=True)) / total[:, None]


def _with_pair(x, m, total):
    return torch.exp(x - m[:, None]) / total[:, None]


def _not_rescaled(x, block: int):
    """Each block's exponentials relative to the maximum so far, added without rescaling."""
    so_far = torch.cummax(_sums(x, block)[0], 1).values
    shift = torch.where(so_far == -torch.inf, 0.0, so_far)
    return _with_sum(x, torch.exp(_blocks(x, block) - shift[..., None]).sum((1, 2)))


def _upside_down(x, block: int):
    m, total = torch.full((len(x),), -torch.inf, dtype=x.dtype), torch.zeros(len(x), dtype=x.dtype)
    for part in _blocks(x, block).unbind(1):
        new = torch.maximum(m, part.amax(1))
        shift = torch.where(new == -torch.inf, 0.0, new)
        factor = torch.where(m == -torch.inf, 0.0, torch.exp(shift - m))
        total = total * factor + torch.exp(part - shift[:, None]).sum(1)
        m = new
    return _with_sum(x, total)


def _lse(x, total):
    return x.amax(1) + torch.log(total)


def _several(compute, sums):
    """The wrong softmax, and the log-sum-exp from the same sum."""
    return lambda x: {"out": compute(x), "lse": _lse(x, sums(x))}


_ONLINE = (
    KnownMistake(
        "wrong-formula",
        "the running sum is not rescaled when the maximum grows",
        lambda x: _not_rescaled(x, LOOP),
    ),
    KnownMistake(
        "wrong-formula",
        "the running sum is multiplied by exp(m_new − m)",
        lambda x: _upside_down(x, LOOP),
    ),
    KnownMistake(
        "missing-accumulation",
        "the sum is that of the last block only",
        lambda x: _with_sum(x, torch.exp(_blocks(x, LOOP)[:, -1] - x.amax(1, keepdim=True)).sum(1)),
    ),
    KnownMistake(
        "missing-accumulation",
        "maximum and sum are those of the first block only",
        known(lambda x: _with_pair(x, *(pair[:, 0] for pair in _sums(x, LOOP)))),
    ),
    KnownMistake(
        "missing-accumulation",
        "maximum and sum are those of the last block only",
        known(lambda x: _with_pair(x, *(pair[:, -1] for pair in _sums(x, LOOP)))),
    ),
)


def _plain_sum(x):
    return _sums(x, PART)[1].sum(1)


_SPLIT = (
    KnownMistake(
        "wrong-formula",
        "the sums of the parts are added without rescaling: they are relative to different maxima",
        _several(lambda x: _with_sum(x, _plain_sum(x)), _plain_sum),
    ),
    KnownMistake(
        "missing-accumulation",
        "each part is divided by its own sum: merge the parts first",
        lambda x: {"out": known(_each_part)(x)},
    ),
    KnownMistake(
        "missing-accumulation",
        "the pair of the first part is used for the whole row",
        lambda x: {"out": known(lambda x: _with_pair(x, *(pair[:, 0] for pair in _sums(x, PART))))(x)},
    ),
    KnownMistake(
        "padded-lanes",
        "parts that do not exist are counted, each with maximum 0 and sum 1",
        lambda x: _parts_of_nothing(x),
    ),
    KnownMistake("wrong-formula", "{name} is log l: add the maximum", lambda x: {"lse": _log_sum(x)}),
    KnownMistake(
        "wrong-formula", "{name} is m + l: it should be m + log l", lambda x: {"lse": x.amax(1) + _row_sum(x)}
    ),
    KnownMistake("wrong-formula", "{name} is m − log l, not m + log l", lambda x: {"lse": x.amax(1) - _log_sum(x)}),
    KnownMistake("wrong-formula", "{name} is l: it should be m + log l", lambda x: {"lse": _row_sum(x)}),
    KnownMistake("wrong-formula", "{name} is the maximum only: add log l", lambda x: {"lse": x.amax(1)}),
)


def _each_part(x):
    return torch.softmax(_blocks(x, PART), 2).reshape(len(x), -1)[:, : x.shape[1]]


def _parts_of_nothing(x):
    parts = -(-x.shape[1] // PART)
    extra = max(16, 1 << (parts - 1).bit_length()) - parts
    m = x.amax(1).clamp(min=0)
    e = torch.exp(x - m[:, None])
    total = e.sum(1) + extra * torch.exp(-m)
    return {"out": e / total[:, None], "lse": m + torch.log(total)}


def _row_sum(x):
    return torch.exp(x - x.amax(1, keepdim=True)).sum(1)


def _log_sum(x):
    return torch.log(_row_sum(x))


# --- kernels -------------------------------------------------------------------------------------------------------


def _cases(block: int, half: str) -> tuple[Case, ...]:
    return (
        Case("2 × 3", {"M": 2, "N": 3}, "position"),
        Case("3 × 1, a single column", {"M": 3, "N": 1}),
        # long rows average roundings to 16 bits away; in short ones with a few large entries they show
        Case(f"33 × 100, short rows with a few large entries, {half}", {"M": 33, "N": 100}, "peaked", dtype=half),
        Case(f"3 × {block - 1}, one short of a block", {"M": 3, "N": block - 1}, "position"),
        Case(f"2 × {block}, exactly one block", {"M": 2, "N": block}, "wide"),
        Case(f"3 × {block + 1}, one more than a block", {"M": 3, "N": block + 1}, "position"),
        Case(f"4 × {2 * block + 701}, padded rows", {"M": 4, "N": 2 * block + 701}, layout="padded"),
        Case(f"3 × {2 * block + 5}, logits up to ten thousand", {"M": 3, "N": 2 * block + 5}, "large"),
        Case(f"3 × {block + 40}, all logits far below zero", {"M": 3, "N": block + 40}, "below"),
        Case(f"4 × {3 * block - 9}, one finite entry per row, the rest -inf", {"M": 4, "N": 3 * block - 9}, "lone"),
        Case(f"6 × {3 * block}, masked with -inf, one row completely", {"M": 6, "N": 3 * block}, "masked"),
        Case(f"3 × {block + 77}, ties", {"M": 3, "N": block + 77}, "ties"),
        Case("3 × 12289, not aligned to 16 bytes", {"M": 3, "N": 12_289}, layout="offset"),
        Case(f"3 × {block + 301}, {half}", {"M": 3, "N": block + 301}, dtype=half),
        Case(f"2 × {5 * block + 1}, long rows", {"M": 2, "N": 5 * block + 1}, "position"),
    )


def _draw(block: int):
    def sizes(rng) -> dict[str, int]:
        near = block * rng.randrange(1, 4) + rng.choice([-1, 0, 1])
        return {"M": rng.randrange(1, 6), "N": rng.choice([rng.randrange(2, 500), near, rng.randrange(5000, 30_000)])}

    return sizes


def _register(name: str, title: str, points: Points, block: int, known_mistakes, lse: bool) -> None:
    arguments = {"x": array("M", "N"), "out": out("M", "N")}
    if lse:
        arguments["lse"] = out("M", dtype="float32")

    def reference(x):
        y = torch.softmax(x, 1)
        return {"out": y, "lse": torch.logsumexp(x, 1)} if lse else y

    def size_of_terms(x):
        y = magnitude(x)
        if not lse:
            return y
        # roundings of the maximum, and those of the sum, which log turns into absolute errors
        m = x.amax(1)
        spread = torch.softmax(x, 1) * torch.where(x > -torch.inf, m[:, None] - x, 0.0)
        return {"out": y, "lse": m.abs() + 1 + spread.sum(1)}

    def library(x):
        return (torch.softmax(x, 1), torch.logsumexp(x, 1)) if lse else torch.softmax(x, 1)

    register(
        KernelExercise(
            id=f"12_online_softmax/{name}",
            title=title,
            entry=name,
            points=points,
            arguments=arguments,
            reference=reference,
            magnitude=size_of_terms,
            contract=Contract(terms=terms),
            cost=lambda sizes, item: Cost(
                item * sizes["M"] * sizes["N"],
                item * sizes["M"] * sizes["N"] + (4 * sizes["M"] if lse else 0),
                6 * sizes["M"] * sizes["N"],
            ),
            cases=_cases(block, "bfloat16" if name == "split_softmax" else "float16"),
            draw=_draw(block),
            tiny=Case("2 rows of 6", {"M": 2, "N": 6}, "integers"),
            bench={"M": 1024, "N": 200_000},
            library=library,
            known_mistakes=(*known_mistakes, *(_both(s) if lse else s for s in KNOWN_MISTAKES)),
        )
    )


def _both(mistake: KnownMistake) -> KnownMistake:
    """A known mistake of unit 11 for two outputs: it predicts only the first."""
    return KnownMistake(mistake.diagnosis, mistake.sentence, lambda x: {"out": mistake.compute(x)})


TWICE = Bound(
    "bytes moved per compulsory byte, two reads and one write",
    "moved_bytes",
    "compulsory_bytes",
    at_most=1.53,
)

_register("online_softmax", "Softmax of rows of any length", Points(correct=3, bounds=(TWICE,)), LOOP, _ONLINE, False)
_register(
    "split_softmax", "Softmax of rows split over programs", Points(correct=3, bounds=(TWICE,)), PART, _SPLIT, True
)
_register(
    "one_launch_softmax",
    "Softmax of split rows in one launch",
    Points(correct=4, bounds=(Bound("launches", "launches", at_most=1),)),
    PART,
    _SPLIT,
    True,
)
