"""Pictures: data in, matplotlib Figure out, nothing else.

Colours are Okabe and Ito's palette, told apart by people with any kind of colour vision; every figure carries its
message as text too (`figure.alt`), for screen readers.
"""

from __future__ import annotations

import base64
import html
import io
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

if TYPE_CHECKING:
    from .trace import Trace

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
"""Okabe & Ito, Color Universal Design (2008)."""

MAX_PICTURED = 1024
"""Elements of one array that an access map can show and still be read."""


class Picture(Figure):
    """A Figure that a notebook shows with alternative text; no global state of pyplot holds on to it."""

    alt = "Figure"

    def _repr_mimebundle_(self, include=None, exclude=None):
        png = io.BytesIO()
        self.savefig(png, format="png", dpi=96)
        data = base64.b64encode(png.getvalue()).decode()
        image = f'<img alt="{html.escape(self.alt)}" style="max-width:100%" src="data:image/png;base64,{data}">'
        return {"text/html": image, "text/plain": self.alt}


def figure(width: float = 8.0, height: float = 3.0) -> Picture:
    """An empty picture, `width` × `height` inches."""
    return Picture(figsize=(width, height), layout="constrained")


def access_map(trace: Trace, title: str = "") -> Picture:
    """Which element each program touches: one strip per array, one row per program.

    Filled: loaded or stored. Hollow: the lane pointed there, but its mask switched it off.
    """
    arrays = {n: s for n, s in trace.shapes.items() if any(e.array == n for e in trace.events)}
    programs = 1 + max((e.program for e in trace.events), default=0)
    fig = figure(8.0, 0.9 + len(arrays) * (0.6 + 0.16 * min(programs, 16)))
    axes = fig.subplots(max(len(arrays), 1), 1, squeeze=False)[:, 0]
    for axis, (name, shape) in zip(axes, arrays.items(), strict=False):
        _strip(axis, trace, name, shape, programs)
    fig.suptitle(title or f"{programs} programs", fontsize=11)
    c = trace.counts
    fig.alt = (
        f"Access map: {programs} programs; {c['load_bytes']} bytes loaded, {c['store_bytes']} bytes stored, "
        f"{c['masked_lanes']} lanes masked off."
    )
    fig.supxlabel(fig.alt, fontsize=9)
    return fig


def _strip(axis, trace: Trace, name: str, shape, programs: int) -> None:
    count = 1
    for n in shape:
        count *= n
    drawn = min(count, MAX_PICTURED)
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
    axis.axvspan(-0.5, count - 0.5, color="#999999", alpha=0.15, lw=0)
    verbs = {e.access.split()[-1] for e in trace.events if e.array == name}
    axis.set_title(f"{name} ({' and '.join(sorted(verbs))}), {count} elements", fontsize=9, loc="left")
    axis.set_ylabel("program", fontsize=8)
    axis.set_ylim(programs - 0.5, -0.5)
    axis.set_xlim(-4, drawn + 12)
    axis.yaxis.get_major_locator().set_params(integer=True)
    axis.tick_params(labelsize=8)
