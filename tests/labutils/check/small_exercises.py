"""Small exercises of every kind of kernel, for tests of the diagnoses."""

import torch

from labutils.spec.exercise import Case, Contract, Cost, KernelExercise, KnownMistake, Number, Points, array, out


def small(name, entry, **more):
    return KernelExercise(
        id=f"99_test/{name}",
        title=name,
        entry=entry,
        points=Points(correct=1),
        cost=lambda sizes, item: Cost(item, item, 1),
        draw=lambda rng: {},
        tiny=more["cases"][0],
        **more,
    )


SOFTMAX = small(
    "softmax",
    "softmax",
    arguments={"x": array("M", "N"), "out": out("M", "N")},
    reference=lambda x: torch.softmax(x, -1),
    magnitude=lambda x: torch.softmax(x, -1),
    contract=Contract(terms=lambda s: s["N"] + 8),
    cases=(
        Case("3 × 100", {"M": 3, "N": 100}, "position"),
        Case("5 × 128, padded", {"M": 5, "N": 128}, "position", layout="padded"),
        Case("4 × 37, large", {"M": 4, "N": 37}, "large"),
    ),
    known_mistakes=(
        KnownMistake(
            "padded-lanes",
            "{name} is too small by what lanes beyond the row add to the sum",
            lambda x: (
                (e := (x - x.amax(-1, keepdim=True)).exp())
                / (
                    e.sum(-1, keepdim=True)
                    + (2 ** (x.shape[-1] - 1).bit_length() - x.shape[-1]) * (-x.amax(-1, keepdim=True)).exp()
                )
            ),
        ),
        KnownMistake(
            "no-max-subtraction", "{name} overflows in exp", lambda x: x.float().exp() / x.float().exp().sum(-1, True)
        ),
    ),
)

ROW_SUM = small(
    "row_sum",
    "row_sum",
    arguments={"x": array("M", "N"), "out": out("M")},
    reference=lambda x: x.sum(-1),
    magnitude=lambda x: x.abs().sum(-1),
    contract=Contract(terms=lambda s: s["N"]),
    cases=(Case("40 × 100", {"M": 40, "N": 100}), Case("33 × 64, padded", {"M": 33, "N": 64}, layout="padded")),
)

MATMUL = small(
    "matmul",
    "matmul",
    arguments={"a": array("M", "K"), "b": array("K", "N"), "c": out("M", "N")},
    reference=lambda a, b: a @ b,
    magnitude=lambda a, b: a.abs() @ b.abs(),
    contract=Contract(dtype="float16", terms=lambda s: s["K"]),
    cases=(
        Case("16 × 16 × 16", {"M": 16, "N": 16, "K": 16}),
        Case("40 × 24 × 56", {"M": 40, "N": 24, "K": 56}),
        Case("32 × 48 × 64, fp32 as tf32", {"M": 32, "N": 48, "K": 64}, dtype="float32"),
    ),
    known_mistakes=(
        KnownMistake(
            "missing-accumulation",
            "{name} holds only the last 16 terms of each sum",
            lambda a, b: a[:, (k := (a.shape[1] - 1) // 16 * 16) :] @ b[k:],
        ),
    ),
)

COPY = small(
    "copy",
    "copy",
    arguments={"x": array("M", "N"), "out": out("M", "N")},
    reference=lambda x: x,
    contract=Contract(terms=1),
    cases=(
        Case("6 × 90", {"M": 6, "N": 90}, "position"),
        Case("7 × 64, padded", {"M": 7, "N": 64}, "position", layout="padded"),
        Case("600 × 2", {"M": 600, "N": 2}, "position"),
    ),
)

SCALE = small(
    "scale",
    "scale",
    arguments={"x": array("n"), "factor": Number(low=1.5, high=2.5), "out": out("n")},
    reference=lambda x, factor: x * factor,
    contract=Contract(terms=1),
    cases=(Case("n = 1000", {"n": 1000}, "position"), Case("n = 2049", {"n": 2049}, "position")),
    known_mistakes=(KnownMistake("wrong-formula", "{name} is a copy of x", lambda x, factor: x),),
)
