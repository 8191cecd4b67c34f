"""Small charts for the reports, as SVG inside the page: data in, markup out, nothing from elsewhere.

Every chart describes itself in words (`<title>`), for readers who do not see it. Colors are the page's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from labutils import exercises
from labutils.spec.exercise import FULL_SPEED, NO_SPEED, Case
from labutils.spec.inputs import torch_dtype
from labutils.spec.verdict import Verdict

LEFT, RIGHT = 0.5, 20.0
"""Times the reference solution's time, at the ends of the axis."""


def _x(ratio: float, width: float) -> float:
    share = math.log(min(max(ratio, LEFT), RIGHT) / LEFT) / math.log(RIGHT / LEFT)
    return round(14 + share * (width - 28), 1)


def _axis(width: float, y: float) -> str:
    marks = "".join(
        f'<line class="grid" x1="{_x(r, width)}" y1="4" x2="{_x(r, width)}" y2="{y}"/>'
        f'<text x="{_x(r, width)}" y="{y + 13}" text-anchor="middle">{r:g}×</text>'
        for r in (0.5, 1, 2, 5, 10, 20)
    )
    return marks + f'<rect class="full" x="14" y="{y - 3}" width="{_x(FULL_SPEED, width) - 14:.1f}" height="3"/>'


def _svg(width: float, height: float, says: str, body: str) -> Markup:
    return Markup(
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(says)}"><title>{escape(says)}</title>'
        f"{body}</svg>"
    )


def times(ratios: Iterable[float]) -> Markup:
    """A class's times relative to the reference solution, a dot each. Empty if nothing was timed."""
    values = sorted(r for r in ratios if math.isfinite(r) and r > 0)
    if not values:
        return Markup("")
    middle = values[len(values) // 2]
    says = f"{len(values)} kernels, from {values[0]:.2f} to {values[-1]:.2f} times the reference; median {middle:.2f}"
    stacked: dict[float, int] = {}
    dots = []
    places = [round(_x(value, 220) / 3) * 3 for value in values]
    step = min(4.0, 36 / max(1, max(map(places.count, set(places))) - 1))
    for x in places:
        stacked[x] = stacked.get(x, 0) + 1
        dots.append(f'<circle class="dot" cx="{x}" cy="{42 - step * (stacked[x] - 1):.1f}" r="2.5"/>')
    return _svg(220, 62, says, _axis(220, 46) + "".join(dots))


def time_beside(ratio: float, low: float, high: float, what: str = "time") -> Markup:
    """One kernel's time (or traffic) relative to the reference solution, with its interval."""
    if not (math.isfinite(ratio) and ratio > 0):
        return Markup("")
    limits = f"all points for speed up to {FULL_SPEED:g}, none from {NO_SPEED:g}"
    says = f"{ratio:.2f} times the reference solution's {what}; {limits}"
    x = _x(ratio, 360)
    body = f'<line class="span" x1="{_x(low, 360)}" y1="17" x2="{_x(high, 360)}" y2="17"/>'
    return _svg(360, 48, says, _axis(360, 32) + body + f'<circle class="dot" cx="{x}" cy="17" r="5"/>')


def marks(shares: Sequence[float]) -> Markup:
    """Histogram of the class's points: ten columns from 0 to 100 percent."""
    columns = [0] * 10
    for share in shares:
        columns[min(9, max(0, int(share * 10)))] += 1
    most, body = max(columns) or 1, ""
    for number, count in enumerate(columns):
        height = round(56 * count / most, 1)
        x = 10 + 34 * number
        body += f'<rect class="column" x="{x}" y="{76 - height}" width="30" height="{height}"/>'
        body += f'<text x="{x + 15}" y="{72 - height}" text-anchor="middle">{count or ""}</text>'
        body += f'<text x="{x + 15}" y="89" text-anchor="middle">{10 * number}</text>'
    says = "Students by percentage of the points: " + ", ".join(
        f"{10 * n} to {10 * n + 10}: {c}" for n, c in enumerate(columns)
    )
    return _svg(360, 92, says, f'<line class="grid" x1="10" y1="76" x2="350" y2="76"/>{body}')


@dataclass(frozen=True)
class Point:
    """A timed kernel on the roofline: FLOPs per byte that must move, FLOPs per second, and the roofline there."""

    label: str
    intensity: float
    rate: float
    roof: float


def point_of(label: str, verdict: Verdict) -> Point | None:
    """Where a timed verdict stands on the roofline; None for a kernel that only moves data, or that nobody timed."""
    exercise, timing = exercises.all_exercises().get(verdict.exercise), verdict.timing
    if exercise is None or not timing or not timing.get("yours_s"):
        return None
    sizes = timing["sizes"]
    cost = exercise.cost(sizes, torch_dtype(exercise.dtype(Case("", sizes))).itemsize)
    if not cost.flops or not cost.bytes:
        return None
    rate = cost.flops / timing["yours_s"]
    return Point(label, cost.flops / cost.bytes, rate, rate / max(timing["of_floor"], 1e-9))


def roofline(points: Sequence[Point]) -> Markup:
    """The class's timed kernels under the roofline, both axes logarithmic; empty if nothing was timed."""
    if not points:
        return Markup("")
    left, right = _decades([p.intensity for p in points])
    bottom, top = _decades([v for p in points for v in (p.rate, p.roof)])

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            round(46 + 300 * (math.log10(x) - left) / (right - left), 1),
            round(190 - 175 * (math.log10(y) - bottom) / (top - bottom), 1),
        )

    body = ""
    for power in range(left, right + 1):
        x, _ = place(10.0**power, 10.0**bottom)
        body += f'<line class="grid" x1="{x}" y1="15" x2="{x}" y2="190"/>'
        body += f'<text x="{x}" y="203" text-anchor="middle">{10.0**power:g}</text>'
    for power in range(bottom, top + 1):
        _, y = place(10.0**left, 10.0**power)
        body += f'<line class="grid" x1="46" y1="{y}" x2="346" y2="{y}"/>'
        body += f'<text x="42" y="{y + 3}" text-anchor="end">{10.0 ** (power - 9):g}</text>'
    for x, y in sorted({place(p.intensity, p.roof) for p in points}):
        body += f'<line class="span" x1="{x - 9}" y1="{y}" x2="{x + 9}" y2="{y}"/>'
    for p in points:
        x, y = place(p.intensity, p.rate)
        body += f'<circle class="dot" cx="{x}" cy="{y}" r="3"><title>{escape(p.label)}</title></circle>'
    body += '<text x="196" y="217" text-anchor="middle">FLOP per byte</text><text x="4" y="10">GFLOP/s</text>'
    share = sorted(100 * p.rate / p.roof for p in points)
    says = f"{len(points)} timed kernels, at {share[0]:.0f} to {share[-1]:.0f} percent of the roofline (the lines)"
    return _svg(360, 222, says, body)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    logs = [math.log10(v) for v in values]
    low, high = math.floor(min(logs)), math.ceil(max(logs))
    return low, max(high, low + 1)
