"""Unit 18: the backward pass of attention. lse and delta are ordinary inputs: the formulas hold for any values.

All inputs are normally distributed, so that P = exp(s − lse) and dS stay within the range of fp16. In one case q, k and
lse have other means, of scores far below zero: P of a key of zeros is then infinite.
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
    Number,
    PlainExercise,
    Points,
    array,
    out,
    register,
)
from ._flash_gradients import (
    TILE,
    dS_times,
    gradients,
    magnitude,
    one_of_group,
    only,
    other_heads,
    terms,
    with_weights,
    without_weights,
)
from ._flash_gradients import known_mistakes as shared_mistakes

# --- ledgers -------------------------------------------------------------------------------------------------------


def _explain_flops(sizes, yours, expected) -> str | None:
    heads, N, D = sizes["heads"], sizes["N"], sizes["D"]
    product = 2 * heads * N * N * D
    messages = {
        5 * product: "Five products are different, but both kernels need S and dP, and each computes them.",
        6 * product: "Both kernels need dP, and both need S.",
        8 * product: "The dQ kernel has three products: S, dP and dQ.",
        4 * product: "Those are the four products of the dK, dV kernel; the dQ kernel has three more.",
        3 * product: "Those are the three products of the dQ kernel; the dK, dV kernel has four more.",
        7 * product // 2: "A multiplication and an addition are two FLOPs.",
        7 * product // heads: "That is for one head.",
    }
    return messages.get(yours)


register(
    PlainExercise(
        id="18_flash_backward/backward_flops",
        title="FLOPs of both backward kernels",
        entry="backward_flops",
        points=Points(correct=1),
        reference=lambda heads, N, D: 14 * heads * N * N * D,
        rtol=0.0,
        explain=_explain_flops,
        cases=(
            Case("one head, 4096 keys, head size 128", {"heads": 1, "N": 4096, "D": 128}),
            Case("128 heads", {"heads": 128, "N": 4096, "D": 128}),
            Case("head size 64", {"heads": 32, "N": 1000, "D": 64}),
        ),
        draw=lambda rng: {
            "heads": rng.randrange(1, 200),
            "N": rng.randrange(1, 99_999),
            "D": rng.choice([32, 64, 128]),
        },
    )
)


def _explain_kept(sizes, yours, expected) -> str | None:
    heads, N, D, item = (sizes[k] for k in ("heads", "N", "D", "itemsize"))
    thin = heads * N * D * item
    messages = {
        4 * thin: "lse is missing: one fp32 number for each query of each head.",
        3 * thin + 4 * heads * N: "The output is kept too: delta is computed from it.",
        4 * thin + heads * N * item: "lse is fp32, whatever the dtype of the others.",
        4 * thin + 8 * heads * N: "delta need not be kept: the backward pass computes it.",
        4 * thin + heads * N * N * item: "P need not be kept: it is recomputed from lse.",
        5 * thin + 4 * heads * N: "The gradient of the output comes later; the forward pass does not keep it.",
    }
    return messages.get(yours)


register(
    PlainExercise(
        id="18_flash_backward/kept_bytes",
        title="Bytes kept for the backward pass",
        entry="kept_bytes",
        points=Points(correct=1),
        reference=lambda heads, N, D, itemsize: heads * N * (4 * D * itemsize + 4),
        rtol=0.0,
        explain=_explain_kept,
        cases=(
            Case("one head, 4096 keys, head size 128, bf16", {"heads": 1, "N": 4096, "D": 128, "itemsize": 2}),
            Case("128 heads", {"heads": 128, "N": 4096, "D": 128, "itemsize": 2}),
            Case("head size 64, fp32", {"heads": 8, "N": 1000, "D": 64, "itemsize": 4}),
        ),
        draw=lambda rng: {
            "heads": rng.randrange(1, 200),
            "N": rng.randrange(1, 99_999),
            "D": rng.choice([32, 64, 128]),
            "itemsize": rng.choice([2, 4]),
        },
    )
)


# --- delta ---------------------------------------------------------------------------------------------------------


def _rows(H, M, D):
    return {"H": H, "M": M, "D": D}


register(
    KernelExercise(
        id="18_flash_backward/delta",
        title="delta, one number per query",
        entry="delta",
        points=Points(correct=1),
        arguments={
            "out": array("H", "M", "D"),
            "dout": array("H", "M", "D"),
            "delta": out("H", "M", dtype="float32"),
        },
        reference=lambda out, dout: (out * dout).sum(-1),
        magnitude=lambda out, dout: (out * dout).abs().sum(-1),
        contract=Contract(dtype="float16", terms=lambda sizes: sizes["D"]),
        cost=lambda sizes, item: Cost(
            2 * item * math.prod(sizes.values()),
            4 * sizes["H"] * sizes["M"],
            2 * math.prod(sizes.values()),
        ),
        cases=(
            Case("1 head, 1 query", _rows(1, 1, 32)),
            Case("1 head, 3 queries", _rows(1, 3, 32), "position"),
            Case("2 heads, 63 queries: one short of a block", _rows(2, 63, 32), "position"),
            Case("1 head, 64 queries: exactly one block", _rows(1, 64, 64), "wide"),
            Case("3 heads, 65 queries, head size 128", _rows(3, 65, 128), "position"),
            Case("2 heads, 50 queries, padded rows", _rows(2, 50, 32), "position", "padded"),
            Case("2 heads, 70 queries, bf16", _rows(2, 70, 64), dtype="bfloat16"),
            Case("2 heads, 40 queries, small integers, compared bit for bit", _rows(2, 40, 32), exact=True),
            Case("1 head, 130 queries, not aligned to 16 bytes", _rows(1, 130, 32), "position", "offset"),
        ),
        draw=lambda rng: _rows(rng.randrange(1, 4), rng.randrange(1, 200), rng.choice([32, 64, 128])),
        tiny=Case("2 queries, head size 16", _rows(1, 2, 16), "integers"),
        bench=_rows(128, 4096, 128),
        library=lambda out, dout: (out.float() * dout.float()).sum(-1),
        known_mistakes=(
            KnownMistake(
                "wrong-formula", "{name} sums over queries, not along D", lambda out, dout: _by_column(out, dout)
            ),
            KnownMistake("wrong-formula", "{name} is the sum of out, without dout", lambda out, dout: out.sum(-1)),
            KnownMistake("wrong-formula", "{name} is the sum of dout, without out", lambda out, dout: dout.sum(-1)),
            KnownMistake("wrong-formula", "{name} is Σ out²", lambda out, dout: (out**2).sum(-1)),
            KnownMistake("wrong-formula", "{name} is a mean, not a sum", lambda out, dout: (out * dout).mean(-1)),
            KnownMistake("wrong-formula", "{name} has the wrong sign", lambda out, dout: -(out * dout).sum(-1)),
        ),
    )
)


def _by_column(out, dout):
    sums = (out * dout).sum(1)
    count = min(sums.shape[1], out.shape[1])
    wrong = torch.full(out.shape[:2], torch.nan, dtype=out.dtype)
    wrong[:, :count] = sums[:, :count]
    return wrong


# --- gradients -----------------------------------------------------------------------------------------------------


def _cases() -> tuple[Case, ...]:
    def of(H, M, D=32, HK=None, N=None, causal=1, **more):
        return {"H": H, "HK": HK or H, "M": M, "N": N or M, "D": D, "causal": causal, **more}

    return (
        Case("causal, 2 queries", of(1, 2)),
        Case("causal, 3 queries", of(1, 3)),
        Case(f"causal, {TILE - 1} queries: one short of a tile", of(1, TILE - 1)),
        Case(f"causal, {TILE} queries: exactly one tile, bf16", of(1, TILE), dtype="bfloat16"),
        Case(f"causal, {TILE + 1} queries", of(1, TILE + 1)),
        Case("causal, 50 queries", of(1, 50)),
        Case("causal, 2 heads, 41 queries, padded rows", of(2, 41), layout="padded"),
        Case("causal, 4 query heads on 2 key heads, 75 queries, head size 64", of(4, 75, 64, HK=2)),
        Case("not causal, 33 queries, 64 keys: whole tiles of keys", of(1, 33, N=64, causal=0)),
        Case(
            "not causal, 3 query heads on 1 key head, 43 keys, scores far below zero, unaligned",
            of(3, 17, 32, 1, 43, 0, below=1),
            layout="offset",
        ),
    )


def _draw(rng):
    heads, causal, length = rng.randrange(1, 3), rng.choice([1, 1, 0]), rng.randrange(1, 80)
    return {
        "H": heads * rng.randrange(1, 3),
        "HK": heads,
        "M": length,
        "N": length if causal else rng.randrange(1, 80),
        "D": rng.choice([32, 64]),
        "causal": causal,
    }


def _cost(products: int, read: int):
    def cost(sizes, item) -> Cost:
        H, HK, M, N, D = (sizes[k] for k in ("H", "HK", "M", "N", "D"))
        pairs = M * (M + 1) // 2 if sizes["causal"] else M * N
        written = 2 * HK * N if products == 4 else H * M
        read = item * D * 2 * (H * M + HK * N) + 8 * H * M
        return Cost(read, item * D * written, 2 * products * H * D * pairs, H * pairs)

    return cost


MEAN = 4.25
"""Of q, and with a minus of k, where scores are to be far below zero: about −18 · √D, so that exp of minus that is more
than fp32 can hold."""


def _around(mean, *dims: str):
    """Normally distributed; close around the mean where scores are to be far below zero."""

    def fill(sizes, g):
        x = torch.randn([sizes[d] for d in dims], generator=g, dtype=torch.float64)
        return mean + x / 16 if sizes.get("below") else x

    return array(*dims, fill=fill)


def _lse(sizes, g):
    x = torch.randn(sizes["H"], sizes["M"], generator=g, dtype=torch.float64)
    return x - MEAN**2 * sizes["D"] ** 0.5 if sizes.get("below") else x


INPUTS = {
    "q": _around(MEAN, "H", "M", "D"),
    "k": _around(-MEAN, "HK", "N", "D"),
    "v": array("HK", "N", "D", fill="normal"),
    "dout": array("H", "M", "D", fill="normal"),
    "lse": array("H", "M", fill=_lse, dtype="float32"),
    "delta": array("H", "M", fill="normal", dtype="float32"),
}


def _register(name: str, title: str, outputs: tuple[str, ...], products: int, most: float, known_mistakes) -> None:
    """`most`: bytes moved, relative to the minimum. A tile that is read without need for each program is 9 % more."""
    dims = ("H", "M", "D") if outputs == ("dq",) else ("HK", "N", "D")
    register(
        KernelExercise(
            id=f"18_flash_backward/{name}",
            title=title,
            entry=name,
            points=Points(
                correct=3,
                bounds=(
                    Bound("bytes moved, relative to the minimum", "moved_bytes", "compulsory_bytes", at_most=most),
                ),
            ),
            arguments={**INPUTS, **{n: out(*dims) for n in outputs}, "causal": Number("causal")},
            reference=only(outputs, gradients),
            magnitude=only(outputs, magnitude),
            contract=Contract(dtype="float16", operands="float16", terms=terms),
            cost=_cost(products, 4),
            cases=_cases(),
            draw=_draw,
            tiny=Case("3 queries, head size 16", {"H": 1, "HK": 1, "M": 3, "N": 3, "D": 16, "causal": 1}),
            bench={"H": 128, "HK": 128, "M": 4096, "N": 4096, "D": 128, "causal": 1},
            known_mistakes=(*known_mistakes, *shared_mistakes(outputs)),
        )
    )


_register(
    "dkdv",
    "Gradients of keys and values",
    ("dk", "dv"),
    4,
    1.4,
    (
        KnownMistake("wrong-formula", "{name} lacks the weights: dV = Pᵀ dO, not just a sum of dO", without_weights),
        KnownMistake(
            "wrong-formula",
            "dk and dv are swapped",
            lambda **x: (lambda g: {"dk": g["dv"], "dv": g["dk"]})(gradients(**x)),
        ),
        KnownMistake(
            "missing-accumulation",
            "{name} holds only the last block of queries: the accumulator restarts in each iteration",
            with_weights(True, ("dk", "dv")),
        ),
        KnownMistake(
            "missing-accumulation",
            "{name} is that of the first query head of each group: sum over all heads of the group",
            one_of_group("first"),
        ),
        KnownMistake(
            "missing-accumulation",
            "{name} is that of the last query head of each group: sum over all heads of the group",
            one_of_group("last"),
        ),
        KnownMistake(
            "wrong-formula",
            "query head h uses key head h % HK: the heads of a group are adjacent, so it is h // group",
            other_heads(("dk", "dv"), lambda h, group, count: h % count),
        ),
    ),
)

_register(
    "dq",
    "Gradients of queries",
    ("dq",),
    3,
    1.9,
    (
        KnownMistake(
            "wrong-formula",
            "{name} is dS V: it must be dS K",
            lambda q, k, v, **x: {"dq": dS_times(q, k, v, v, **x)},
        ),
        KnownMistake(
            "missing-accumulation",
            "{name} holds only the last block of keys: the accumulator restarts in each iteration",
            with_weights(False, ("dq",)),
        ),
        KnownMistake(
            "missing-accumulation",
            "{name} holds only the first block of keys",
            with_weights(False, ("dq",), first=True),
        ),
        KnownMistake(
            "wrong-formula",
            "query head h reads key head h % HK: the heads of a group are adjacent, so it is h // group",
            other_heads(("dq",), lambda h, group, count: h % count),
        ),
        KnownMistake(
            "wrong-formula", "every query head reads key head 0", other_heads(("dq",), lambda h, group, count: 0 * h)
        ),
    ),
)
