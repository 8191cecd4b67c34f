"""What a GPU can do at most, and how near something comes: rooflines, number formats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..gpu.formats import FORMATS, Format
from ..gpu.roofline import Roof, units
from .base import figure
from .machine import BLUE, GREEN, GREY, ORANGE, RED, WIDTH, _bare

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKERS = "osD^vPX*"
STYLES = ("-", "--", "-.", ":")


def roofline(roofs: Sequence[Roof], points: Mapping[str, tuple[float, float | None]], title: str = "") -> Figure:
    """Roofs, and kernels under the first of them: (FLOP per byte, FLOP/s measured, or None to put it on the roof)."""
    fig = figure(WIDTH, 3.9)
    axis = fig.subplots()
    spots = [x for x, _ in points.values() if 0 < x < math.inf] + [r.ridge for r in roofs]
    low, high = min(spots) / 8, max(spots) * 8
    for k, roof in enumerate(roofs):
        colour = (BLUE, GREEN, RED, GREY)[k % 4]
        x = [low, roof.ridge, high]
        axis.plot(x, [roof.attainable(i) for i in x], STYLES[k % 4], color=colour, lw=2, label=roof.name)
        axis.annotate(f"{roof.ridge:.3g}", (roof.ridge, roof.flops), (0, 5), textcoords="offset points", fontsize=9)
    parts = []
    for k, (name, (intensity, rate)) in enumerate(points.items()):
        best = roofs[0].attainable(intensity)
        x = min(max(intensity, low), high)
        at, filled = (rate, ORANGE) if rate else (best, "white")
        axis.plot(x, at, MARKERS[k % 8], color=ORANGE, markerfacecolor=filled, markeredgecolor="black", markersize=9,
                  label=f"{name}: {intensity:.3g} FLOP/byte", linestyle="none")  # fmt: skip
        reached = f"{rate / best:.0%} of its roof" if rate else f"at most {units(best, 'FLOP/s')}"
        if rate and rate > 1.02 * best:
            reached = f"{rate / best:.2g} times this roof, so another pipe did it"
        parts.append(f"{name}, {intensity:.3g} FLOP/byte, {roofs[0].bound(intensity)}-bound, {reached}")
    axis.set(xscale="log", yscale="log", xlim=(low, high), xlabel="arithmetic intensity, FLOP/byte", ylabel="FLOP/s")
    axis.grid(True, which="major", color=GREY, alpha=0.3)
    axis.legend(fontsize=8, loc="lower right")
    ridges = "; ".join(f"{r.name} has its ridge at {r.ridge:.3g} FLOP/byte" for r in roofs)
    fig.alt = f"Roofline: {ridges}. " + "; ".join(parts) + ("." if parts else "")
    fig.suptitle(title or roofs[0].name, fontsize=11)
    return fig


def formats(value: float, names: Sequence[str] = tuple(FORMATS), title: str = "") -> Figure:
    """The bits of one value in each format, what is left of it, how fine the format is there and how far it reaches."""
    fig = figure(WIDTH, 0.7 + 0.62 * len(names))
    axis = fig.subplots()
    parts = []
    for row, name in enumerate(names):
        form = FORMATS[name]
        column = 0
        for bits, colour in zip(form.fields(value), (GREY, ORANGE, BLUE), strict=True):
            for bit in bits:
                axis.barh(row, 0.94, left=column, height=0.42, color=colour, alpha=0.35, edgecolor="black", lw=0.5)
                axis.text(column + 0.47, row, bit, ha="center", va="center", fontsize=8)
                column += 1
        axis.text(-0.4, row, name, ha="right", va="center", fontsize=10, weight="bold")
        text = _format_text(form, value)
        axis.text(0, row + 0.42, text, va="center", fontsize=8.5)
        parts.append(f"{name}: {text}")
    axis.set(xlim=(-5.6, 32.2), ylim=(len(names) - 0.3, -0.5), xticks=[], yticks=[])
    _bare(axis)
    axis.set_xlabel("sign (gray), exponent (orange), mantissa (blue)", fontsize=9)
    fig.alt = f"Number formats, {value:g}. " + ". ".join(parts) + "."
    fig.suptitle(title or f"{value:g} in {len(names)} formats", fontsize=11)
    return fig


def _format_text(form: Format, value: float) -> str:
    stored = form.stored(value)
    reach = f"up to {form.largest:.4g}, from {form.smallest:.2g}"
    if not math.isfinite(stored):
        return f"{stored:g}: too large for it; {reach}"
    error = abs(stored - value) / abs(value) if value else 0.0
    return f"{stored:.9g} ({error:.2g} off); step {form.step(stored):.2g}; {reach}"
