"""Unit 20: attention in CUDA C++, with shuffles and with tensor cores. Contiguous fp16 arrays, fp32 accumulators."""

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
from . import _flash_mistakes
from ._attention import attention, from_scores, magnitude, scores, terms
from ._bounds import NO_STORE_CONFLICTS
from ._numbers import sentence_for

# --- which lane holds what -----------------------------------------------------------------------------------------


def _row(lane, i):
    return lane // 4 + 8 * (i // 2)


def _column(lane, i):
    return lane % 4 * 2 + i % 2


def _explain_row(sizes, yours, expected) -> str | None:
    lane, i = sizes["lane"], sizes["i"]
    messages = (
        (lane // 4, "Elements 2 and 3 are 8 rows below."),
        (lane // 4 + 8 * (i % 2), "Elements 0 and 1 share a row; 2 and 3 are in the other row."),
        (lane // 4 + i // 2, "The other row is 8 rows below, not the next one."),
        (lane % 4 + 8 * (i // 2), "Four consecutive lanes share a row: r is lane // 4."),
        (lane // 8 + 8 * (i // 2), "Four lanes share a row, and each holds two of its columns."),
        (lane % 8 + 8 * (i // 2), "Four consecutive lanes share a row: r is lane // 4."),
        (_column(lane, i), "That is the column."),
    )
    return next((text for value, text in messages if yours == value), None)


def _explain_column(sizes, yours, expected) -> str | None:
    lane, i = sizes["lane"], sizes["i"]
    messages = (
        (lane % 4 * 2, "Elements 1 and 3 are one column to the right."),
        (lane % 4 + i % 2, "A lane holds two columns, so the next lane starts two columns to the right."),
        (lane % 4 * 2 + i // 2, "Elements 0 and 1 are side by side; 2 and 3 are below them."),
        (lane % 4 * 2 + i, "Elements 2 and 3 are below 0 and 1, in the same columns."),
        (lane // 4 * 2 + i % 2, "c is lane % 4: it counts the lanes of a row."),
        (lane // 4 + i % 2, "c is lane % 4: it counts the lanes of a row."),
        (lane % 8 * 2 + i % 2, "A row has 8 columns: four lanes with two columns each."),
        (lane % 4 + 4 * (i % 2), "The two columns of a lane are adjacent."),
        (_row(lane, i), "That is the row."),
    )
    return next((text for value, text in messages if yours == value), None)


def _where(lane, i):
    return {"lane": lane, "i": i}


def _explain_intensity(sizes, yours, expected) -> str | None:
    rows, item = sizes["rows"], sizes["itemsize"]
    messages = (
        (rows / item, "A multiply-add is two FLOPs. There are two products, and each reads its own bytes."),
        (4 * rows / item, "There are two products, but also two tiles: keys, then values."),
        (2 * rows, "That is for each element. An element has `itemsize` bytes."),
        (2 / item, "Each key is used by all queries of the warp."),
        (item / (2 * rows), "Invert the fraction: FLOPs per byte."),
    )
    return sentence_for(yours, messages)


for _name, _title, _reference, _explain in (
    ("row_of", "Row of an accumulator element", _row, _explain_row),
    ("column_of", "Column of an accumulator element", _column, _explain_column),
):
    register(
        PlainExercise(
            id=f"20_flash_cuda/{_name}",
            title=_title,
            entry=_name,
            points=Points(correct=1),
            reference=_reference,
            rtol=0.0,
            explain=_explain,
            cases=(
                Case("lane 5, element 0", _where(5, 0)),
                Case("lane 5, element 1", _where(5, 1)),
                Case("lane 5, element 2", _where(5, 2)),
                Case("lane 30, element 3", _where(30, 3)),
                Case("lane 0, element 3", _where(0, 3)),
                Case("lane 19, element 0", _where(19, 0)),
            ),
            draw=lambda rng: _where(rng.randrange(32), rng.randrange(4)),
        )
    )

register(
    PlainExercise(
        id="20_flash_cuda/shared_intensity",
        title="FLOPs per byte of shared memory",
        entry="shared_intensity",
        points=Points(correct=1),
        reference=lambda rows, itemsize: 2 * rows / itemsize,
        explain=_explain_intensity,
        cases=(
            Case("16 queries, fp16", {"rows": 16, "itemsize": 2}),
            Case("32 queries, fp16", {"rows": 32, "itemsize": 2}),
            Case("8 queries, fp32", {"rows": 8, "itemsize": 4}),
            Case("64 queries, fp8", {"rows": 64, "itemsize": 1}),
        ),
        draw=lambda rng: {"rows": rng.randrange(3, 200), "itemsize": rng.choice([1, 2, 4])},
    )
)

# --- kernels -------------------------------------------------------------------------------------------------------


def _of(H, M, N, D=64):
    return {"H": H, "M": M, "N": N, "D": D}


def _cost(sizes, item) -> Cost:
    H, M, N, D = (sizes[k] for k in ("H", "M", "N", "D"))
    return Cost(item * D * H * (M + 2 * N), item * D * H * M + 4 * H * M, 4 * H * D * M * N, H * M * N)


def _library(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]


def _tiles_of(size: int, which):
    """Attention to the keys of some tiles of `size` keys: `which(tile number, last tile number)`."""

    def compute(q, k, v):
        tile = torch.arange(k.shape[1]) // size
        return from_scores(scores(q, k).masked_fill(~which(tile, int(tile[-1])), -torch.inf), v)

    return compute


FAR_BELOW = -30.0
"""A score whose weight, beside one of 0, is below the smallest that fp16 holds."""


def _padded(size: int):
    """Keys past the end, up to the end of the tile, included with score 0 and value 0."""

    def compute(q, k, v):
        s = scores(q, k)
        # one key cannot tell the mistakes apart, nor can a result of zeros beside scores far below 0
        extra = -k.shape[1] % size if k.shape[1] > 1 and s.max() > FAR_BELOW else 0
        return from_scores(torch.nn.functional.pad(s, (0, extra)), torch.nn.functional.pad(v, (0, 0, 0, extra)))

    return compute


def _walk(size: int, **how):
    """The loop over tiles without one of its rescalings."""

    def compute(q, k, v):
        s, both = scores(q, k), {}
        m = torch.full(s.shape[:2], -torch.inf, dtype=s.dtype)
        l, acc = torch.zeros_like(m), torch.zeros(*s.shape[:2], v.shape[-1], dtype=s.dtype)  # noqa: E741
        for start in range(0, s.shape[-1], size):
            part = s[..., start : start + size]
            new = torch.maximum(m, part.amax(-1))
            p, factor = torch.exp(part - new[..., None]), torch.exp(m - new)
            l = l * (factor if how.get("sum", True) else 1) + p.sum(-1)  # noqa: E741
            acc = acc * (factor[..., None] if how.get("acc", True) else 1) + p @ v[:, start : start + size]
            m = new
        return both | {"out": acc / l[..., None], "lse": m + torch.log(l)}

    return compute


OF_TILES = ("rescaled", "tile", _flash_mistakes.PAST_THE_END, "multiplied")
"""Words in the sentences of unit 17's mistakes that depend on its tile size."""


def _lifted(mistake: KnownMistake) -> KnownMistake:
    """A mistake of unit 17; for a single key the result is correct."""
    compute = mistake.compute
    return KnownMistake(
        mistake.diagnosis, mistake.sentence, lambda q, k, v: compute(q, k, v) if k.shape[1] > 1 else attention(q, k, v)
    )


def _known_mistakes(size: int) -> tuple[KnownMistake, ...]:
    shared = (_lifted(s) for s in _flash_mistakes.known_mistakes(scores) if not any(x in s.sentence for x in OF_TILES))
    return (
        KnownMistake(
            "wrong-formula",
            "{name} is not rescaled when the maximum grows: multiply acc by the same factor as l",
            _walk(size, acc=False),
        ),
        KnownMistake(
            "wrong-formula", "the running sum l is not rescaled when the maximum grows", _walk(size, sum=False)
        ),
        KnownMistake("wrong-formula", "neither l nor acc is rescaled", _walk(size, sum=False, acc=False)),
        KnownMistake("padded-lanes", "keys past the end are included, with a score of 0", _padded(size)),
        KnownMistake("missing-accumulation", "{name} holds only the first tile", _tiles_of(size, lambda t, n: t == 0)),
        KnownMistake("missing-accumulation", "{name} holds only the last tile", _tiles_of(size, lambda t, n: t == n)),
        KnownMistake(
            "missing-accumulation",
            "acc holds only the last tile, but l holds all of them",
            _last_of_all(size),
        ),
        *shared,
    )  # fmt: skip


def _last_of_all(size: int):
    def compute(q, k, v):
        tile = torch.arange(k.shape[1]) // size
        last = torch.where(tile == tile[-1], torch.softmax(scores(q, k), -1), 0.0)
        # where the weight of these keys is 0, a result of 0 has too many causes: return one that no kernel gives
        return {"out": torch.where(last.sum(-1, keepdim=True) > 0.01, last @ v, 1e4)}

    return compute


def _level(name: str, title: str, points: Points, block_m: int, block_n: int) -> None:
    register(
        KernelExercise(
            id=f"20_flash_cuda/{name}",
            title=title,
            entry=name,
            points=points,
            language="cuda",
            arguments={
                "q": array("H", "M", "D"),
                "k": array("H", "N", "D"),
                "v": array("H", "N", "D"),
                "out": out("H", "M", "D"),
                "lse": out("H", "M", dtype="float32"),
            },
            reference=attention,
            magnitude=magnitude,
            contract=Contract(dtype="float16", operands="float16", terms=terms),
            cost=_cost,
            cases=(
                Case("1 query, 1 key", _of(1, 1, 1), "position"),
                Case("3 queries, 5 keys", _of(1, 3, 5), "position"),
                Case(f"{block_m - 1} queries, {block_n - 1} keys", _of(1, block_m - 1, block_n - 1), "position"),
                Case(f"{block_m + 1} queries, {block_n + 1} keys", _of(1, block_m + 1, block_n + 1), "position"),
                Case("2 heads, 37 queries, 53 keys", _of(2, 37, 53), "position"),
                Case("20 queries, 70 keys, scores up to a hundred", _of(1, 20, 70), "integers"),
                Case("11 queries, 45 keys, scores far below zero", _of(1, 11, 45), "opposed"),
                Case("9 queries, 40 keys, values of all sizes", _of(1, 9, 40), "wide"),
                Case("2 heads, 33 queries, 21 keys, not aligned to 16 bytes", _of(2, 33, 21), "normal", "offset"),
                Case(f"{2 * block_m} queries, {3 * block_n} keys: whole tiles", _of(1, 2 * block_m, 3 * block_n)),
            ),
            draw=lambda rng: _of(rng.randrange(1, 3), rng.randrange(1, 90), rng.randrange(1, 90)),
            tiny=Case("1 query, 2 keys", _of(1, 1, 2)),
            bench=_of(128, 4096, 4096, 128),
            library=_library,
            known_mistakes=_known_mistakes(block_n),
        )
    )


def _no_conflicts(wavefronts: int) -> Bound:
    return Bound(
        "shared memory wavefronts, relative to the minimum",
        "shared_load_wavefronts",
        "ideal_shared_load_wavefronts",
        at_most=1.02,
        reference=wavefronts,
        margin=3,
        also=NO_STORE_CONFLICTS,
    )


_level("scalar", "Level 1: lanes are keys, then columns", Points(correct=4, bounds=(_no_conflicts(12_288),)), 32, 32)
_level(
    "tensor",
    "Level 2: tensor cores",
    Points(
        correct=6,
        bounds=(
            _no_conflicts(1152),
            Bound(
                "bytes read from shared memory per byte loaded",
                "shared_load_bytes",
                "global_load_bytes",
                at_most=2.5,
                reference=1 << 16,
            ),
        ),
    ),
    64,
    32,
)
