"""Work over time, a row for each rank or stage and a box for each piece of work; curves over sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .base import PALETTE, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = tuple(PALETTE[k] for k in (4, 1, 3, 5, 2, 6))


class Box(NamedTuple):
    """A piece of work: its row, its times, what is written into it, its color's number; `striped` marks a kind."""

    row: int
    start: float
    end: float
    text: str = ""
    color: int = 0
    striped: bool = False


def gantt(rows: Sequence[str], boxes: Sequence[Box], title: str, unit: str, legend: str = "") -> Figure:
    """Rows from the top down, boxes at their times; `legend` says what stands in a box."""
    end = max((b.end for b in boxes), default=0.0)
    fig = figure(8.0, 0.9 + 0.4 * len(rows))
    axis = fig.subplots()
    for box in boxes:
        width = box.end - box.start
        axis.barh(
            box.row, width, left=box.start, height=0.8, color=COLORS[box.color % len(COLORS)],
            hatch="//" if box.striped else None, edgecolor="black", linewidth=0.6,
        )  # fmt: skip
        if box.text and width > 0.012 * len(box.text) * end:
            back = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"}
            axis.text(box.start + width / 2, box.row, box.text, ha="center", va="center", fontsize=8, bbox=back)
    axis.set_yticks(range(len(rows)), rows, fontsize=9)
    axis.set(ylim=(len(rows) - 0.45, -0.55), xlim=(0, end or 1.0))
    axis.set_xlabel("; ".join(filter(None, [unit, legend])), fontsize=9)
    axis.set_title(title, fontsize=10, loc="left")
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    busy = [sum(b.end - b.start for b in boxes if b.row == row) for row in range(len(rows))]
    shares = ", ".join(f"{name} {time / end:.0%}" for name, time in zip(rows, busy, strict=True)) if end else "none"
    fig.alt = f"{title}. {end:g} {unit} in total; share of the time at work: {shares}."
    return fig


def curves(xs: Sequence[float], ys: Mapping[str, Sequence[float]], title: str, x: str, y: str) -> Figure:
    """Named curves on two logarithmic axes, and the places where the lowest one changes."""
    fig = figure(6.5, 3.4)
    axis = fig.subplots()
    for k, (name, values) in enumerate(ys.items()):
        axis.plot(xs, values, marker="os^D"[k % 4], ms=3, color=COLORS[k % len(COLORS)], label=name)
    lowest = [min(ys, key=lambda name, k=k: ys[name][k]) for k in range(len(xs))]
    axis.set(xscale="log", yscale="log", xlabel=x, ylabel=y)
    axis.set_title(title, fontsize=10)
    axis.legend(fontsize=8)
    changes = [f"{a} up to {xs[k]:,g} {x}, then {b}" for k, (a, b) in enumerate(zip(lowest, lowest[1:], strict=False))
               if a != b]  # fmt: skip
    fig.alt = f"{title}. The lowest curve: {'; '.join(changes) or lowest[0] + ' everywhere'}."
    return fig
