"""A plan over time: a row for the host and one for each engine, a box for each piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .base import PALETTE, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..gpu.queue_times import Span

ROWS = ("host", "copy in", "compute", "copy out")
HOST_COLORS = {"copy_in": PALETTE[7], "kernel": PALETTE[7], "copy_out": PALETTE[7], "replay": PALETTE[3]}
SLOT_COLORS, SLOT_HATCHES = (PALETTE[4], PALETTE[1]), (None, "//")


def queue_timeline(timelines: Mapping[str, Sequence[Span]], title: str = "") -> Figure:
    """Timelines by name, below each other on one time axis (µs). Boxes carry the piece; slot 1 is striped."""
    fig = figure(8.0, 0.5 + 1.75 * len(timelines))
    axes = fig.subplots(len(timelines), 1, sharex=True, squeeze=False)[:, 0]
    told = []
    for axis, (name, spans) in zip(axes, timelines.items(), strict=True):
        end = max((s.end for s in spans), default=0.0)
        rows = [row for row in ROWS if any(s.engine == row for s in spans)]
        for span in spans:
            _box(axis, rows.index(span.engine), span, end)
        axis.set_yticks(range(len(rows)), rows, fontsize=9)
        axis.set(ylim=(len(rows) - 0.45, -0.55))
        axis.set_title(f"{name}: {end:,.0f} µs", fontsize=10, loc="left")
        for side in ("top", "right", "left"):
            axis.spines[side].set_visible(False)
        busy = ", ".join(f"{row} {_busy(spans, row) / end:.0%}" for row in rows if row != "host") if end else "nothing"
        told.append(f"{name}: {end:.0f} µs; share of the time in which each engine works: {busy}")
    axes[-1].set_xlabel("µs; number: piece; striped: slot 1; gray: the host's calls", fontsize=9)
    fig.alt = "Timeline. " + ". ".join(told) + "."
    if title:
        fig.suptitle(title, fontsize=11)
    return fig


def _box(axis, row: int, span: Span, end: float) -> None:
    if span.engine == "host":
        color = HOST_COLORS.get(span.verb, "white")
        axis.barh(row, span.end - span.start, left=span.start, height=0.5, color=color, edgecolor="black", lw=0.3)
        return
    slot = max(span.slot, 0) % 2
    axis.barh(
        row, span.end - span.start, left=span.start, height=0.8, color=SLOT_COLORS[slot], hatch=SLOT_HATCHES[slot],
        edgecolor="black", linewidth=0.6,
    )  # fmt: skip
    if span.end - span.start > 0.025 * end and span.piece >= 0:
        box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}
        axis.text((span.start + span.end) / 2, row, str(span.piece), ha="center", va="center", fontsize=8, bbox=box)


def _busy(spans: Sequence[Span], row: str) -> float:
    return sum(s.end - s.start for s in spans if s.engine == row)
