"""Unit 10, third part: a histogram and prefix sums in CUDA C++, compaction in Triton."""

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
from ._cases import draw_blocks

UNIT = "10_scan"
BINS = 256
BLOCK = 256
"""Threads per block in the unit's launchers."""
KEEP_BLOCK = 1024
"""Elements per program of the compaction's launcher."""

# --- histogram -----------------------------------------------------------------------------------------------------

EVEN, SKEWED, ONE, ENDS = range(4)
"""How x is filled: every value equally often; mostly small values; one value only; only the first and last bin."""

INTEGERS = Contract(dtype="float32", terms=1, any_order=True)
"""Whole numbers are right or wrong. Atomics may add them in any order."""


def _values(sizes, g) -> torch.Tensor:
    n, bins, mix = sizes["n"], sizes["bins"], sizes["mix"]
    if mix == ONE:
        return torch.full((n,), int(torch.randint(0, bins, (), generator=g)))
    if mix == ENDS:
        return (bins - 1) * torch.randint(0, 2, (n,), generator=g)
    x = torch.rand(n, generator=g, dtype=torch.float64)
    return ((x**4 if mix == SKEWED else x) * bins).long().clamp(max=bins - 1)


def counts_of(x, bins: int) -> torch.Tensor:
    """How many elements of x (float64) have each of the values 0 … bins - 1."""
    return torch.bincount(x[(x >= 0) & (x < bins)].long(), minlength=bins).double()


def _one_per_block(x, bins):
    """What blocks count that add 1 for each bin they have seen; NaN where there are several blocks."""
    return counts_of(x, bins).clamp(max=1) if len(x) <= BLOCK else x.new_full((bins,), torch.nan)


def _elements(n: int, mix: int = EVEN, bins: int = BINS) -> dict[str, int]:
    return {"n": n, "mix": mix, "bins": bins}


HISTOGRAM_MISTAKES = (
    KnownMistake(
        "first-block-only",
        "counts holds only the first 256 elements of x",
        lambda x, bins: counts_of(x[:BLOCK], bins),
    ),
    KnownMistake(
        "missing-accumulation",
        "counts holds only what the first warps counted",
        lambda x, bins: counts_of(x[torch.arange(len(x), device=x.device) % BLOCK < 32], bins),
    ),
    KnownMistake(
        "missing-accumulation",
        "each bin is 0 or 1: add 1 for every element, do not store 1",
        lambda x, bins: counts_of(x, bins).clamp(max=1),
    ),
    KnownMistake("missing-accumulation", "each block adds 1 to a bin, not the number that it counted", _one_per_block),
    KnownMistake(
        "wrong-formula",
        "the bins are off by one: the value v belongs to bin v",
        lambda x, bins: counts_of(x, bins).roll(1),
    ),
    KnownMistake("wrong-formula", "the bins are in reverse order", lambda x, bins: counts_of(x, bins).flip(0)),
    KnownMistake(
        "wrong-formula",
        "counts holds the sum of the values in each bin, not their number",
        lambda x, bins: counts_of(x, bins) * torch.arange(bins, device=x.device) if bins > 1 else x.new_ones(1) / 0,
    ),
    KnownMistake(
        "wrong-formula",
        "counts is cumulative: bin b counts only the elements equal to b",
        lambda x, bins: counts_of(x, bins).cumsum(0),
    ),
)

register(
    KernelExercise(
        id=f"{UNIT}/histogram",
        title="Histogram with private bins",
        entry="histogram",
        points=Points(
            correct=2,
            bounds=(
                Bound(
                    "bytes of global stores and atomics per byte of x",
                    "global_store_bytes",
                    "global_load_bytes",
                    at_most=0.3,
                    reference=4 * 65_536,
                ),
            ),
        ),
        arguments={
            "x": array("n", fill=_values, dtype="int32"),
            "bins": Number(size="bins"),
            "counts": out("bins", dtype="int32"),
        },
        reference=counts_of,
        magnitude=lambda x, bins: x.new_zeros(bins),
        contract=INTEGERS,
        cost=lambda sizes, item: Cost(4 * sizes["n"], 4 * sizes["bins"], sizes["n"]),
        cases=(
            Case("one element, one bin", _elements(1, bins=1)),
            Case("n = 3, two bins", _elements(3, bins=2), "position"),
            Case("n = 255, all in one of 256 bins", _elements(255, ONE)),
            Case("n = 256, 100 bins", _elements(256, bins=100), "integers"),
            Case("n = 257, only the first and the last bin", _elements(257, ENDS)),
            Case("n = 1000, mostly small values", _elements(1000, SKEWED)),
            Case("n = 5000, 33 bins, not aligned to 16 bytes", _elements(5000, bins=33), layout="offset"),
            Case("n = 20011, all in one bin", _elements(20_011, ONE)),
            Case("n = 65536, sixteen full blocks", _elements(65_536)),
        ),
        draw=lambda rng: _elements(
            rng.choice([rng.randrange(1, 300), 256 * rng.randrange(1, 9) + rng.choice([-1, 0, 1]), 9001]),
            rng.randrange(4),
            rng.choice([rng.randrange(1, 20), rng.randrange(20, 256), BINS]),
        ),
        tiny=Case("eight elements, four bins", _elements(8, bins=4)),
        bench=_elements(2**27),
        library=lambda x, bins: torch.bincount(x.long() if x.is_floating_point() else x, minlength=bins),
        language="cuda",
        known_mistakes=HISTOGRAM_MISTAKES,
    )
)


# --- prefix sums ---------------------------------------------------------------------------------------------------


def _blocks(x, size: int) -> torch.Tensor:
    """x in rows of `size`, the last one padded with zeros."""
    return torch.nn.functional.pad(x, (0, -len(x) % size)).reshape(-1, size)


def _within(x, size: int) -> torch.Tensor:
    """Prefix sums that start again every `size` elements."""
    return _blocks(x, size).cumsum(1).flatten()[: len(x)]


def _shifted(offsets: torch.Tensor, x, size: int) -> torch.Tensor:
    """Prefix sums within parts of `size`, plus one offset per part."""
    return _within(x, size) + offsets.repeat_interleave(size)[: len(x)]


def _unscanned(x) -> torch.Tensor:
    """Each block gets the total of the previous block, not of all blocks before it."""
    totals = _blocks(x, BLOCK).sum(1)
    return _shifted(torch.cat([totals.new_zeros(1), totals[:-1]]), x, BLOCK)


def _warps_unscanned(x) -> torch.Tensor:
    """Each warp gets the total of the previous warp only."""
    warps = _blocks(x, BLOCK).reshape(-1, BLOCK // 32, 32).sum(2)
    before = torch.nn.functional.pad(warps, (1, 0))[:, :-1].flatten()
    mine = _shifted(before, x, 32)
    ends = mine[BLOCK - 1 :: BLOCK] if len(x) > BLOCK else mine[:0]
    offsets = torch.cat([x.new_zeros(1), ends.cumsum(0)])[: -(-len(x) // BLOCK)]
    return mine + offsets.repeat_interleave(BLOCK)[: len(x)]


def _unguarded(x) -> torch.Tensor:
    """Every lane adds what the shuffle returns, also a lane that gets its own sum back."""
    warps = _blocks(x, BLOCK).reshape(-1, 32)
    for s in (1, 2, 4, 8, 16):
        warps = warps + torch.cat([warps[:, :s], warps[:, :-s]], 1)
    totals = warps[:, -1].reshape(-1, BLOCK // 32)
    blocks = (warps + (totals.cumsum(1) - totals).reshape(-1, 1)).reshape(-1, BLOCK)
    if len(blocks) > 1:
        blocks = blocks + torch.cat([x.new_zeros(1), _unguarded(blocks[:, -1])[:-1]])[:, None]
    return blocks.flatten()[: len(x)]


SCAN_MISTAKES = (
    KnownMistake(
        "wrong-formula",
        "{name} is the exclusive scan: out[i] must include x[i]",
        lambda x: x.cumsum(0) - x,
    ),
    KnownMistake(
        "missing-accumulation",
        "{name} starts again in each warp: add the totals of the warps before it",
        lambda x: _within(x, 32) if len(x) <= BLOCK else torch.full_like(x, torch.nan),
    ),
    KnownMistake(
        "missing-accumulation",
        "{name} starts again in each block: the totals of the blocks before it are missing",
        lambda x: _within(x, BLOCK),
    ),
    KnownMistake("missing-accumulation", "each block adds only the total of the block before it", _unscanned),
    KnownMistake(
        "missing-accumulation",
        "each warp adds only the total of the warp before it: scan these totals",
        _warps_unscanned,
    ),
    KnownMistake("missing-accumulation", "{name} is x: nothing is added", lambda x: x),
    KnownMistake(
        "wrong-formula",
        "each lane adds what __shfl_up_sync returns, also a lane below s, which gets its own sum back",
        _unguarded,
    ),
    KnownMistake(
        "wrong-formula",
        "{name} holds sums from the end: out[i] is x[0] + … + x[i]",
        lambda x: x.flip(0).cumsum(0).flip(0),
    ),
    KnownMistake("wrong-formula", "{name} holds running maxima, not sums", lambda x: x.cummax(0).values),
    KnownMistake("wrong-formula", "{name} holds prefix sums of |x|", lambda x: x.abs().cumsum(0)),
)

register(
    KernelExercise(
        id=f"{UNIT}/scan",
        title="Prefix sums with shuffles",
        entry="scan",
        points=Points(
            correct=3,
            bounds=(
                Bound(
                    "bytes written to shared memory per byte of x",
                    "shared_store_bytes",
                    "global_load_bytes",
                    at_most=0.2,
                    reference=12 * 66_000,
                ),
            ),
        ),
        arguments={"x": array("n"), "out": out("n")},
        reference=lambda x: x.cumsum(0),
        magnitude=lambda x: x.abs().cumsum(0),
        contract=Contract(terms=lambda sizes: sizes["n"]),
        cost=lambda sizes, item: Cost(item * sizes["n"], item * sizes["n"], sizes["n"]),
        cases=(
            Case("one element", {"n": 1}),
            Case("three elements", {"n": 3}, "position"),
            Case("n = 32, one warp", {"n": 32}, "position"),
            Case("n = 100, less than a block", {"n": 100}, "integers", exact=True),
            Case("n = 255, one short of a block", {"n": 255}, "position"),
            Case("n = 256, exactly one block", {"n": 256}, "integers", exact=True),
            Case("n = 257, one more than a block", {"n": 257}, "position"),
            Case("n = 1000, not aligned to 16 bytes", {"n": 1000}, "position", "offset"),
            Case("n = 3000, values up to ten thousand", {"n": 3000}, "large"),
            Case("n = 4099, small integers, compared bit for bit", {"n": 4099}, "integers", exact=True),
            Case("n = 66000, three levels", {"n": 66_000}, "integers", exact=True),
        ),
        draw=draw_blocks,
        tiny=Case("eight elements", {"n": 8}, "integers"),
        bench={"n": 2**27},
        library=lambda x: torch.cumsum(x, 0),
        language="cuda",
        known_mistakes=SCAN_MISTAKES,
    )
)


# --- compaction ----------------------------------------------------------------------------------------------------


def _padded(kept: torch.Tensor, n: int) -> torch.Tensor:
    return torch.nn.functional.pad(kept, (0, n - len(kept)))


def _kept(x, keep) -> dict[str, torch.Tensor]:
    return {"out": _padded(x[keep], len(x)), "count": keep.sum().reshape(1).double()}


def _late(x) -> dict[str, torch.Tensor]:
    """Ranks that start at 1: everything one place too far, and the last one outside."""
    kept = x[x > 0]
    return _kept(x, x > 0) | {"out": _padded(torch.cat([x.new_zeros(1), kept]), len(x) + 1)[: len(x)]}


def _within_blocks(x) -> dict[str, torch.Tensor]:
    """Without the offsets of the blocks: every block writes from place 0; the last writer is unknown."""
    return _kept(x, x > 0) | {"out": _padded(x[:KEEP_BLOCK][x[:KEEP_BLOCK] > 0], len(x))}


def _in_place(x) -> dict[str, torch.Tensor]:
    return _kept(x, x > 0) | {"out": x.clamp(min=0)}


COMPACT_MISTAKES = (
    KnownMistake("wrong-formula", "{name}: zeros are kept; keep x > 0", lambda x: _kept(x, x >= 0)),
    KnownMistake("wrong-formula", "{name}: negative elements are kept; keep x > 0", lambda x: _kept(x, x < 0)),
    KnownMistake("wrong-formula", "{name}: everything except 0 is kept; keep x > 0", lambda x: _kept(x, x != 0)),
    KnownMistake("wrong-formula", "{name}: every element is kept", lambda x: _kept(x, x == x)),
    KnownMistake(
        "wrong-formula",
        "{name}: the first kept element is at index 1: use the exclusive prefix sum as the index",
        _late,
    ),
    KnownMistake("wrong-formula", "{name}: kept elements stay where they were in x", _in_place),
    KnownMistake(
        "wrong-formula",
        "{name} is in reverse order",
        lambda x: _kept(x, x > 0) | {"out": _padded(x[x > 0].flip(0), len(x))},
    ),
    KnownMistake(
        "wrong-formula",
        "{name} is sorted: keep the order of x",
        lambda x: _kept(x, x > 0) | {"out": _padded(x[x > 0].sort().values, len(x))},
    ),
)

register(
    KernelExercise(
        id=f"{UNIT}/compact",
        title="Keep the positive elements, in order",
        entry="compact",
        points=Points(
            correct=3,
            bounds=(Bound("bytes moved per byte of x", "moved_bytes", per="compulsory_bytes", at_most=2.7),),
        ),
        arguments={"x": array("n"), "out": out("n"), "count": out(dtype="int32")},
        reference=lambda x: _kept(x, x > 0),
        magnitude=lambda x: {"out": torch.zeros_like(x), "count": x.new_zeros(1)},
        contract=Contract(terms=1),
        cost=lambda sizes, item: Cost(item * sizes["n"], 4, sizes["n"]),  # how many are kept depends on x
        cases=(
            Case("one element", {"n": 1}),
            Case("three elements", {"n": 3}, "integers"),
            Case("n = 100, less than a block, with zeros", {"n": 100}, "ties"),
            Case(f"n = {KEEP_BLOCK - 1}, one short of a block", {"n": KEEP_BLOCK - 1}, "position"),
            Case(f"n = {KEEP_BLOCK}, exactly one block", {"n": KEEP_BLOCK}, "position"),
            Case(f"n = {KEEP_BLOCK + 1}, one more than a block", {"n": KEEP_BLOCK + 1}, "position"),
            Case("n = 3000, nothing to keep", {"n": 3000}, "below"),
            Case("n = 3001, everything is kept", {"n": 3001}, "shifted"),
            Case("n = 5000, not aligned to 16 bytes", {"n": 5000}, "position", "offset"),
            Case("n = 9001, small integers with zeros", {"n": 9001}, "integers"),
            Case("n = 40009, many blocks", {"n": 40_009}, "position"),
        ),
        draw=lambda rng: {
            "n": rng.choice([rng.randrange(1, 64), KEEP_BLOCK * rng.randrange(1, 5) + rng.choice([-1, 0, 1]), 20_011])
        },
        tiny=Case("ten elements", {"n": 10}, "integers"),
        bench={"n": 2**26},
        library=lambda x: _padded(x[x > 0], len(x)),
        known_mistakes=COMPACT_MISTAKES,
    )
)
