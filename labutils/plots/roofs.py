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
    fig.alt = _roofline(fig.subplots(), roofs, points)
    fig.suptitle(title or roofs[0].name, fontsize=11)
    return fig


def parts_and_roofline(
    parts: Mapping[str, Mapping[str, float]],
    seconds: Mapping[str, float],
    roofs: Sequence[Roof],
    points: Mapping[str, tuple[float, float | None]],
    title: str,
) -> Figure:
    """Bars: the seconds that each part of the GPU needs, for each of a few kernels. Below them the kernels on the
    roofline, where they compute. `seconds` are the kernels' own."""
    names = [name for name in next(iter(parts.values()), {}) if any(p.get(name) for p in parts.values())]
    longest = {name: max(p.get(name, 0.0) for p in parts.values()) for name in names}
    names.sort(key=longest.__getitem__, reverse=True)
    heights = ([0.5 + 0.19 * len(parts) * len(names)] if names else []) + ([2.8] if points else [])
    fig = figure(WIDTH, 0.5 + sum(heights))
    axes = list(fig.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0])
    texts = []
    if names:
        texts.append(_parts(axes.pop(0), names, parts, seconds))
    if points:
        texts.append(_roofline(axes.pop(0), roofs, points))
    fig.alt = " ".join(texts)
    fig.suptitle(title, fontsize=11)
    return fig


def _parts(axis, names: list[str], parts: Mapping, seconds: Mapping[str, float]) -> str:
    wide, texts = 0.8 / len(parts), []
    top = max(max(seconds.values()), max(p.get(n, 0.0) for p in parts.values() for n in names))
    unit, factor = ("ms", 1e3) if top >= 1e-3 else ("µs", 1e6)
    for k, (kernel, own) in enumerate(parts.items()):
        values = [factor * own.get(name, 0.0) for name in names]
        places = [row + k * wide for row in range(len(names))]
        label = f"{kernel}: {units(seconds[kernel], 's')} in all"
        axis.barh(places, values, wide * 0.9, color=(ORANGE, BLUE)[k % 2], alpha=0.85, label=label)
        for place, value in zip(places, values, strict=True):
            axis.text(value + 0.008 * factor * top, place, f"{value:.3g}", va="center", fontsize=7.5)
        needed = ", ".join(f"{name} {units(own.get(name, 0.0), 's')}" for name in names)
        texts.append(f"{kernel} takes {units(seconds[kernel], 's')}. Alone, its parts would take: {needed}.")
    axis.set_yticks([row + wide * (len(parts) - 1) / 2 for row in range(len(names))], names, fontsize=9)
    axis.set(xlim=(0, 1.1 * factor * top), xlabel=f"time that each part of the GPU needs alone, {unit}")
    axis.invert_yaxis()
    axis.grid(True, axis="x", color=GREY, alpha=0.3)
    axis.set_axisbelow(True)
    axis.legend(fontsize=8, loc="lower right")
    return " ".join(texts)


def _roofline(axis, roofs: Sequence[Roof], points: Mapping[str, tuple[float, float | None]]) -> str:
    """Draws it; the text for screen readers."""
    spots = [x for x, _ in points.values() if 0 < x < math.inf] + [r.ridge for r in roofs]
    low, high = min(spots) / 8, max(spots) * 8
    for k, roof in enumerate(roofs):
        colour = (BLUE, GREEN, RED, GREY)[k % 4]
        x = [low, roof.ridge, high]
        axis.plot(x, [roof.attainable(i) for i in x], STYLES[k % 4], color=colour, lw=2, label=roof.name)
        axis.annotate(
            f"ridge {roof.ridge:.3g}", (roof.ridge, roof.flops), (0, 5), textcoords="offset points", fontsize=9
        )
    parts = []
    for k, (name, (intensity, rate)) in enumerate(points.items()):
        best = roofs[0].attainable(intensity)
        x = min(max(intensity, low), high)
        at, filled = (rate, ORANGE) if rate else (best, "white")
        axis.plot(x, at, MARKERS[k % 8], color=ORANGE, markerfacecolor=filled, markeredgecolor="black",
                  markersize=9 + 4 * k, zorder=3 - 0.1 * k, linestyle="none",
                  label=f"{name}: {intensity:.3g} FLOP/byte")  # fmt: skip
        reached = f"{rate / best:.0%} of its roof" if rate else f"at most {units(best, 'FLOP/s')}"
        if rate and rate > 1.02 * best:
            reached = f"{rate / best:.2g} times this roof, so another pipe did it"
        parts.append(f"{name}, {intensity:.3g} FLOP/byte, {roofs[0].bound(intensity)}-bound, {reached}")
    axis.set(xscale="log", yscale="log", xlim=(low, high), xlabel="arithmetic intensity, FLOP/byte", ylabel="FLOP/s")
    axis.grid(True, which="major", color=GREY, alpha=0.3)
    axis.legend(fontsize=8, loc="lower right")
    ridges = "; ".join(f"{r.name} has its ridge at {r.ridge:.3g} FLOP/byte" for r in roofs)
    return f"Roofline: {ridges}. " + "; ".join(parts) + ("." if parts else "")


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
