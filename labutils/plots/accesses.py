"""Where a kernel touches memory: access maps, sectors of a global access, banks of a shared one."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from .base import PALETTE, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..backends.trace import Trace

MAX_PICTURED = 1024
"""Elements of one array that an access map can show and still be read."""


def access_map(trace: Trace, title: str = "") -> Figure:
    """Which element each program, or each block, touches: one strip per array, one row per program.

    Filled: loaded or stored. Hollow: the lane pointed there, but its mask switched it off. Gray background: elements of
    the array; a slice of a larger array has gaps.
    """
    arrays = {n: inside for n, inside in trace.inside.items() if any(e.array == n for e in trace.events)}
    programs = 1 + max((e.program for e in trace.events), default=0)
    fig = figure(8.0, 0.9 + len(arrays) * (0.6 + 0.16 * min(programs, 16)))
    axes = fig.subplots(max(len(arrays), 1), 1, squeeze=False)[:, 0]
    for axis, (name, inside) in zip(axes, arrays.items(), strict=False):
        _strip(axis, trace, name, inside, programs)
    programs_ran, blocks_ran = f"{programs} program{'s' * (programs != 1)}", f"{programs} block{'s' * (programs != 1)}"
    number = programs_ran if trace.unit == "program" else blocks_ran
    fig.suptitle(title or number, fontsize=11)
    c = trace.counts
    fig.alt = f"Access map: {number}; {c['load_bytes']} bytes loaded, {c['store_bytes']} bytes stored" + (
        f", {c['masked_lanes']} lanes masked off." if trace.unit == "program" else "."
    )
    fig.supxlabel(fig.alt, fontsize=9)
    return fig


def _strip(axis, trace: Trace, name: str, inside: Sequence[bool], programs: int) -> None:
    drawn = min(len(inside), MAX_PICTURED)
    for e in trace.events:
        if e.array != name:
            continue
        colour, masked = PALETTE[e.program % len(PALETTE)], e.access.startswith("masked")
        marker = "s" if "load" in e.access else ("D" if "store" in e.access else "*")
        at = [i for i in e.elements if -8 <= i < drawn + 24]
        axis.plot(
            at,
            [e.program] * len(at),
            marker,
            markersize=4 if drawn <= 128 else 2,
            markerfacecolor="none" if masked else colour,
            markeredgecolor=colour,
            markeredgewidth=0.6,
            linestyle="none",
        )
    for first, last in _runs(inside[:drawn]):
        axis.axvspan(first - 0.5, last + 0.5, color="#999999", alpha=0.25, lw=0)
    verbs = {e.access.split()[-1] for e in trace.events if e.array == name}
    what, count = f"{name} ({' and '.join(sorted(verbs))})", sum(inside)
    gaps = f"{count} elements of a slice, in {len(inside)} elements of memory"
    axis.set_title(f"{what}: {f'{count} elements' if all(inside) else gaps}", fontsize=9, loc="left")
    axis.set_ylabel("program ID" if trace.unit == "program" else "block index", fontsize=8)
    axis.set_ylim(programs - 0.5, -0.5)
    axis.set_xlim(-4, drawn + 12)
    axis.yaxis.get_major_locator().set_params(integer=True)
    axis.tick_params(labelsize=8)


def _runs(inside: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """First and last element of each run of elements that the array has."""
    at = 0
    for has, run in itertools.groupby(inside):
        length = len(list(run))
        if has:
            yield at, at + length - 1
        at += length


LANES = 32
SECTOR, BANKS, BANK_WIDTH = 32, 32, 4


def coalescing(offset: Callable[[int], int], width: int = 4, title: str = "") -> Figure:
    """One global access of a warp: lane k touches `width` bytes at byte `offset(k)`; which 32-byte sectors move?"""
    touched = [set(range(offset(k) // SECTOR, (offset(k) + width - 1) // SECTOR + 1)) for k in range(LANES)]
    sectors = sorted(set().union(*touched))
    column = {s: i for i, s in enumerate(sectors)}
    fig = figure(6.4, 2.7)
    axis = fig.subplots()
    for i, s in enumerate(sectors):
        new_line = i == 0 or s // 4 != sectors[i - 1] // 4
        axis.barh(0, 1, left=i, height=0.7, color=PALETTE[4], edgecolor="black", linewidth=2.0 if new_line else 0.5)
        if len(sectors) <= LANES:
            axis.text(i + 0.5, 0, str(s), ha="center", va="center", fontsize=8)
    span = max(len(sectors), 1)
    for k in range(LANES):
        x = (k + 0.5) * span / LANES
        for s in touched[k]:
            axis.plot([x, column[s] + 0.5], [1.6, 0.36], color=PALETTE[k % 2], linewidth=0.8)
        axis.text(x, 1.72, str(k), ha="center", fontsize=8)
    useful = LANES * width / (SECTOR * len(sectors))
    fig.alt = (
        f"Coalescing: 32 lanes of {width} bytes touch {len(sectors)} sectors, {SECTOR * len(sectors)} bytes moved for "
        f"{LANES * width} asked for: {min(useful, 1):.0%} of them needed."
    )
    return _lanes(fig, axis, span, title, "lanes; sectors of 32 bytes; a thick edge begins a line of 128")


def banks(offset: Callable[[int], int], width: int = 4, title: str = "") -> Figure:
    """One shared-memory access of a warp: lane k touches `width` bytes at byte `offset(k)`; which banks serve it?

    Accesses of 8 and 16 bytes are served in two and four phases, half and quarter warps; lanes that read the same word
    are served together.
    """
    per_phase = LANES * BANK_WIDTH // max(width, BANK_WIDTH)
    worst, used = [], {}
    for first in range(0, LANES, per_phase):
        words: dict[int, set[int]] = {}
        for k in range(first, first + per_phase):
            for word in range(offset(k) // BANK_WIDTH, (offset(k) + width - 1) // BANK_WIDTH + 1):
                words.setdefault(word % BANKS, set()).add(word)
                used.setdefault(word % BANKS, []).append(k)
        worst.append(max(len(w) for w in words.values()))
    wavefronts = sum(worst)
    deepest = max(len(set(lanes)) for lanes in used.values())
    fig = figure(6.4, 1.4 + 0.18 * deepest)
    axis = fig.subplots()
    for b in range(BANKS):
        for row, k in enumerate(dict.fromkeys(used.get(b, []))):
            axis.barh(row, 0.9, left=b, height=0.9, color=PALETTE[0 if row == 0 else 5])
            axis.text(b + 0.45, row, str(k), ha="center", va="center", fontsize=8, color="white")
    axis.set_ylim(deepest - 0.4, -0.6)
    fig.alt = (
        f"Banks: 32 lanes of {width} bytes need {wavefronts} wavefronts where {len(worst)} would do; "
        f"the worst bank serves {max(worst)} words."
    )
    return _lanes(fig, axis, BANKS, title, "banks of shared memory, and the lanes that each serves", ticks=True)


def _lanes(fig: Figure, axis, span: int, title: str, label: str, ticks: bool = False) -> Figure:
    axis.set_xlim(-0.2, span + 0.2)
    axis.set_yticks([])
    axis.set_xticks(range(0, BANKS, 4) if ticks else [])
    for side in ("top", "left", "right", "bottom"):
        axis.spines[side].set_visible(False)
    axis.set_xlabel(label, fontsize=9)
    words = "\n".join(textwrap.wrap(fig.alt, 78))
    fig.suptitle(f"{title}\n{words}" if title else words, fontsize=9.5)
    return fig


def line_costs(lines: list[dict], space: str) -> list[tuple[int, int, int, int]]:
    """(source line, requests, pieces moved, fewest pieces) of the lines that touch this memory.

    Pieces are sectors of global memory or wavefronts of shared memory.
    """
    found = []
    for row in lines:
        if space == "global":
            requests = row["global_load_requests"] + row["global_store_requests"]
            moved = row["global_load_sectors"] + row["global_store_sectors"]
            least = row["ideal_load_sectors"] + row["ideal_store_sectors"]
        else:
            requests = row["shared_load_requests"] + row["shared_store_requests"]
            moved = row["shared_load_wavefronts"] + row["shared_store_wavefronts"]
            least = row["ideal_shared_load_wavefronts"] + row["ideal_shared_store_wavefronts"]
        if requests:
            found.append((row["line"], requests, moved, least))
    return found


def costs(rows: list[tuple[int, int, int, int]], text: list[str], chosen: int, space: str, name: str) -> Figure:
    """Sectors or wavefronts of each line of a recorded kernel beside the fewest possible; one line is picked out."""
    piece = "sectors" if space == "global" else "wavefronts"
    fig = figure(6.4, 1.2 + 0.42 * len(rows))
    axis = fig.subplots()
    for k, (_, _, moved, least) in enumerate(rows):
        axis.barh(k, moved, height=0.7, color=PALETTE[5] if moved > least else PALETTE[4], edgecolor="black",
                  linewidth=2.4 if k == chosen else 0.6)  # fmt: skip
        axis.plot([least, least], [k - 0.45, k + 0.45], color="black", lw=2, linestyle="--")
        axis.text(moved, k, f"  {moved}" + (f" for {least}" if moved > least else ""), va="center", fontsize=10)
    axis.set(ylim=(len(rows) - 0.4, -0.6), xlim=(0, 1.3 * max(moved for _, _, moved, _ in rows)))
    axis.set_yticks(range(len(rows)), [f"line {line}" for line, *_ in rows])
    axis.set_xlabel(f"{piece} of the whole launch; dashed: the fewest that could do")
    line, requests, moved, least = rows[chosen]
    source = text[line - 1].strip() if 0 < line <= len(text) else ""
    fig.alt = (
        f"{name}, line {line}: {source} makes {requests} requests of warps with {moved} {piece}, "
        f"{moved / requests:.3g} each; {least} would do."
    )
    fig.suptitle(f"{name}, line {line}: {source}"[:90], fontsize=10)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    return fig
