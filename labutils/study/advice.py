"""The one thing to change next: what differs most from the reference solution, and the line where it happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..check.figures import Figures, Line
from ..spec.traffic import requested, sectors

CLOSE = 1.15
"""Up to this many times the reference solution's count nothing needs to change."""


@dataclass(frozen=True)
class Advice:
    """What to change, and the line, where one stands out."""

    sentence: str
    line: Line | None = None

    def __str__(self) -> str:
        place = f" Line {self.line.number}: {self.line.text}" if self.line and self.line.number else ""
        return self.sentence + place


def next_step(yours: Figures, reference: Figures) -> Advice:
    """The first of these that is worse than in the reference solution: spilled registers, bytes, sectors, bank
    conflicts, wavefronts of shared memory, tensor cores, load width, bytes in flight, launches, idle lanes,
    barriers."""
    for difference in _DIFFERENCES:
        if (found := difference(yours, reference)) is not None:
            return found
    return Advice(
        "Nothing that is counted here is worse than in the reference solution. Measure it on a GPU: lab.benchmark."
    )


def excess(counts: Mapping[str, int]) -> int:
    """Sectors beyond the fewest that could hold the bytes."""
    return sum(counts.get(f"global_{way}_sectors", 0) - counts.get(f"ideal_{way}_sectors", 0) for way in _WAYS)


def conflicts(counts: Mapping[str, int]) -> int:
    """Wavefronts beyond those of accesses without bank conflicts."""
    names = [f"shared_{way}_wavefronts" for way in (*_WAYS, "atomic")]
    return sum(counts.get(name, 0) - counts.get(f"ideal_{name}", 0) for name in names)


def idle(counts: Mapping[str, int]) -> int:
    """Lanes that were switched off."""
    return counts.get("lane_slots", 0) - counts.get("lanes", 0)


_WAYS = ("load", "store")


def _global_bytes(counts: Mapping[str, int]) -> int:
    return sum(counts.get(f"global_{way}_bytes", 0) for way in (*_WAYS, "atomic"))


def _worst(yours: Figures, count: Callable[[Mapping[str, int]], int]) -> Line | None:
    """The line with most of something."""
    line = max(yours.lines, key=lambda line: count(line.counts), default=None)
    return line if line and count(line.counts) > 0 else None


def _spills(yours: Figures, reference: Figures) -> Advice | None:
    mine, theirs = (max((c.local for c in f.code), default=0) for f in (yours, reference))
    if mine <= theirs:
        return None
    return Advice(
        f"Each thread keeps {mine} bytes in local memory, which is slow: the registers do not hold its "
        "values, or it indexes an array with a number known only at run time. Take a smaller tile or more threads, or "
        "unroll the loop."
    )


def _bytes(yours: Figures, reference: Figures) -> Advice | None:
    mine, theirs = requested(yours.counts), requested(reference.counts)
    if mine <= CLOSE * theirs:
        return None
    return Advice(
        f"The kernel requests {mine / theirs:.2g} times the bytes of the reference solution: load each element once "
        "and keep it in registers or shared memory. Most bytes are requested here.",
        _worst(yours, _global_bytes),
    )


def _sectors(yours: Figures, reference: Figures) -> Advice | None:
    mine, theirs = sectors(yours.counts), sectors(reference.counts)
    if mine <= CLOSE * theirs:
        return None
    return Advice(
        f"The kernel requests {mine / theirs:.2g} times the sectors of the reference solution for the same bytes: let "
        "neighboring lanes access neighboring addresses. Most sectors are wasted here.",
        _worst(yours, excess),
    )


def _conflicts(yours: Figures, reference: Figures) -> Advice | None:
    total = sum(yours.counts.get(f"ideal_shared_{way}_wavefronts", 0) for way in (*_WAYS, "atomic"))
    mine, theirs = conflicts(yours.counts), conflicts(reference.counts)
    if mine <= theirs + (CLOSE - 1) * total:
        return None
    return Advice(
        f"Bank conflicts take {mine:,} of its {total + mine:,} wavefronts: lanes of a warp access different words of "
        "one bank. Pad the rows of the shared array, or swizzle its columns. Most of them are here.",
        _worst(yours, conflicts),
    )


def _shared(yours: Figures, reference: Figures) -> Advice | None:
    mine, theirs = (wavefronts(f.counts) for f in (yours, reference))
    if not theirs or mine <= CLOSE * theirs:
        return None
    return Advice(
        f"Accesses of shared memory take {mine / theirs:.2g} times the wavefronts of the reference solution: read each "
        "word once, keep it in a register, and use it for several results. Most wavefronts are here.",
        _worst(yours, wavefronts),
    )


def wavefronts(counts: Mapping[str, int]) -> int:
    """Of shared memory, with bank conflicts."""
    return sum(counts.get(f"shared_{way}_wavefronts", 0) for way in (*_WAYS, "atomic"))


def _matrix(yours: Figures, reference: Figures) -> Advice | None:
    mine, theirs = ({c.matrix for c in f.code} - {None} for f in (yours, reference))
    if not yours.code or not theirs or mine:
        return None
    return Advice(
        f"No tensor-core instruction is in the machine code; the reference solution uses {', '.join(sorted(theirs))}. "
        "Use tl.dot in Triton, or the unit's matrix instructions in CUDA C++."
    )


def _width(yours: Figures, reference: Figures) -> Advice | None:
    mine, theirs = (max((c.load or 0 for c in f.code), default=0) for f in (yours, reference))
    if not mine or mine >= theirs or any(c.tma for c in yours.code):
        return None
    return Advice(
        f"A thread loads at most {mine} bytes at a time; in the reference solution it loads {theirs}. Let each thread "
        "load contiguous elements, as float4 in CUDA C++; Triton does so where addresses are contiguous and aligned.",
        _worst(yours, lambda counts: counts.get("global_load_requests", 0)),
    )


def _flight(yours: Figures, reference: Figures) -> Advice | None:
    """Where the caches or the matrix units wait for loads to registers."""
    plans = [[c.schedule for c in f.code if c.schedule] for f in (yours, reference)]
    if not all(plans) or any(s.copies for found in plans for s in found):
        return None
    mine, theirs = (max(s.flight for s in found) for found in plans)
    if not mine or theirs <= CLOSE * mine:
        return None
    return Advice(
        f"A thread has at most {mine} bytes of loads in flight, in the reference solution {theirs}: it waits for a "
        "value before it asks for the next ones. Unroll the loop around the loads, and let no condition with an else "
        "stand between them."
    )


def _launches(yours: Figures, reference: Figures) -> Advice | None:
    mine, theirs = (f.counts.get("launches", 0) for f in (yours, reference))
    if mine <= theirs:
        return None
    return Advice(
        f"The launcher launches {mine} kernels, the reference solution {theirs}: what one kernel writes and the next "
        "one reads goes through memory. Fuse them."
    )


def _idle(yours: Figures, reference: Figures) -> Advice | None:
    mine, theirs = (_active(f.counts) for f in (yours, reference))
    if mine is None or theirs is None or theirs - mine < 0.1:
        return None
    return Advice(
        f"On average {mine:.0%} of the lanes are active, in the reference solution {theirs:.0%}: let whole warps take "
        "the same branch, or take blocks that fit the size. Most lanes are idle here.",
        _worst(yours, idle),
    )


def _active(counts: Mapping[str, int]) -> float | None:
    return counts["lanes"] / counts["lane_slots"] if counts.get("lane_slots") else None


def _barriers(yours: Figures, reference: Figures) -> Advice | None:
    mine, theirs = (f.counts.get("barriers", 0) for f in (yours, reference))
    if mine <= CLOSE * theirs:
        return None
    return Advice(
        f"Threads wait at {mine:,} barriers, in the reference solution at {theirs:,}: keep only those between a write "
        "to shared memory and a read by another thread."
    )


_DIFFERENCES = (
    _spills, _bytes, _sectors, _conflicts, _shared, _matrix, _width, _flight, _launches, _idle, _barriers
)  # fmt: skip
