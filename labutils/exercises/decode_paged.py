"""Unit 19, the paged cache: the keys of a sequence are on pages of a pool, listed in a block table."""

import torch

from ..spec.exercise import Case, Contract, Cost, KernelExercise, KnownMistake, Points, array, out, register
from . import _decode as form
from ._attention import attention, magnitude
from .decode_kernels import cost, of_keys


def _paged_of(B, H, HK, T, PAGE, D=32, mix=1, P=0, **more):
    """P pages in the pool: by default more than the sequences need."""
    return {"B": B, "H": H, "HK": HK, "T": T, "PAGE": PAGE, "D": D, "mix": mix, "P": P or B * T + 3, **more}


def _paged(q, k, v, table, lengths, of=attention):
    # a wrong length may reach past the table
    return form.paged(q, k, v, table, lengths.clamp(max=table.shape[1] * k.shape[2]), of)


def _paged_cost(sizes, item) -> Cost:
    """Every page in use is read once, by the first sequence that uses it; of a last page, only its keys."""
    page, lengths = sizes["PAGE"], form.lengths(sizes)
    shared = page * (int((lengths >= page).sum()) - 1)
    least = cost(sizes, item, int(lengths.sum()) - shared)
    return Cost(least.read + 4 * int((-(-lengths // page)).sum()), least.written, least.flops)


def _numbers(change):
    """Wrong page numbers: `change(table, b)`; invalid numbers become pages of the pool."""

    def compute(q, k, v, table, lengths):
        wrong = change(table, torch.arange(len(table))[:, None])
        return _paged(q, k, v, torch.where(table < 0, 0, wrong), lengths)

    return compute


def _turned(by):
    """Each key is replaced by the one `by` positions later on its page, cyclically."""

    def compute(q, k, v, table, lengths):
        return _paged(q, k.roll(-by, 2), v.roll(-by, 2), table, lengths)

    return compute


def _first_key(q, k, v, table, lengths):
    return _paged(q, k[:, :, :1].expand_as(k), v[:, :, :1].expand_as(v), table, lengths)


def _whole_pages(q, k, v, table, lengths):
    page = k.shape[2]
    return _paged(q, k, v, table, torch.ceil(lengths / page) * page)


PAGES = (
    KnownMistake(
        "wrong-formula",
        "each sequence's last page is taken to be full: {name} includes old data past the sequence's end",
        _whole_pages,
    ),
    KnownMistake(
        "wrong-formula",
        "the block table is not used: page t of the pool is read as page t of the sequence",
        _numbers(lambda table, b: torch.arange(table.shape[1]).expand_as(table)),
    ),
    KnownMistake(
        "wrong-formula",
        "the block table is not used: the pool is read as one contiguous cache",
        _numbers(lambda table, b: b * table.shape[1] + torch.arange(table.shape[1])),
    ),
    KnownMistake(
        "wrong-formula", "every sequence uses the pages of the first", _numbers(lambda table, b: table[0] + 0 * b)
    ),
    KnownMistake("off-by-one", "each page number is one too large", _numbers(lambda table, b: table + 1)),
    KnownMistake("off-by-one", "keys are read one position too far on their page", _turned(1)),
    KnownMistake("wrong-formula", "the position on the page is ignored: all keys are the page's first", _first_key),
)  # fmt: skip

FAR = _paged_of(2, 4, 2, 7, 8, mix=9, P=15)
"""So few pages that some which are used lie beyond 2³¹ elements."""

register(
    KernelExercise(
        id="19_decode_attention/paged",
        title="Level 3: a paged cache",
        entry="paged",
        points=Points(correct=4),
        arguments={
            "q": array("B", "H", "D"),
            "k": array("P", "HK", "PAGE", "D", unused=form.unused),
            "v": array("P", "HK", "PAGE", "D", unused=form.unused),
            "table": array("B", "T", fill=form.table, dtype="int32"),
            "lengths": array("B", fill=form.lengths, dtype="int32"),
            "out": out("B", "H", "D"),
        },
        reference=_paged,
        magnitude=lambda **x: _paged(**x, of=magnitude),
        contract=Contract(
            dtype="float16",
            operands="float16",
            terms=lambda sizes: sizes["T"] * sizes["PAGE"] + sizes["D"],
        ),
        cost=_paged_cost,
        cases=(
            Case("2 sequences, 1 page each", _paged_of(2, 1, 1, 1, 8, mix=2), "position"),
            Case("1 sequence, 9 pages of 8 keys", _paged_of(1, 2, 1, 9, 8, mix=0), "position"),
            Case("3 sequences of different lengths, a shared first page", _paged_of(3, 4, 2, 9, 8), "position"),
            Case("2 sequences, a partial last page, pools of 2³² elements", FAR, "position", "far"),
            Case(
                "pages of 64 keys, several tiles each, NaN in unused places", _paged_of(2, 3, 1, 2, 64, 32, 3, stale=1)
            ),
            Case("2 sequences, scores far below zero", _paged_of(2, 2, 1, 6, 8, mix=3), "opposed"),
            Case("3 sequences, 2 key heads, padded rows", _paged_of(3, 4, 2, 6, 8, mix=5), "position", "padded"),
            Case("scores up to a hundred", _paged_of(2, 3, 1, 11, 8, mix=6), "integers"),
            Case("values of all sizes", _paged_of(2, 2, 1, 6, 8, mix=7), "wide"),
            Case("20 heads on 1, bf16, unaligned", _paged_of(1, 20, 1, 10, 8, 64, 8), "normal", "offset", "bfloat16"),
        ),
        draw=lambda rng: _paged_of(
            rng.randrange(1, 4),
            (heads := rng.randrange(1, 3)) * rng.randrange(1, 5),
            heads,
            rng.randrange(1, 8),
            rng.choice([4, 8, 16]),
            rng.choice([32, 64]),
            rng.randrange(0, 1000),
        ),
        tiny=Case("2 heads on 1 key head, 2 pages of 2 keys", _paged_of(1, 2, 1, 2, 2, 16, 0, 3)),
        bench=_paged_of(64, 32, 8, 512, 16, 128, 0, 64 * 512),
        known_mistakes=(*PAGES, *of_keys(_paged)),
    )
)
