"""What unit 25 shows: stored reports of Nsight Compute, timelines, and machine code.

from labutils import profiles
profiles.try_all(diagnose)            a function of the learner on every stored report
profiles.draw(timeline)               the rows of a timeline, as a picture
profiles.code(kernel)                 the accesses to memory in a kernel's machine code
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from .. import environment, plots
from ..cuda import cubin, nvrtc
from ..exercises import _reports, profile_gaps, profile_sass
from ..plots.base import PALETTE, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENGINES = {"host": PALETTE[7], "copy": PALETTE[4], "kernel": PALETTE[1]}

CAPABILITY = (9, 0)

SHOWN = ("eager, small", "compiled, small")
"""Timelines of which `compare` shows a picture."""


def try_all(diagnose: Callable[[dict], str]) -> None:
    """How often the learner's function is right, by bottleneck, and the kernels where it is not."""
    if environment.grading_in_progress():
        return
    for bottleneck in _reports.EVIDENCE:
        stored = [report for report in _reports.reports() if report["bottleneck"] == bottleneck]
        wrong = [(r["source"], found) for r in stored if (found := diagnose(dict(r["metrics"]))) != bottleneck]
        print(f"{bottleneck:15} {len(stored) - len(wrong):2} of {len(stored):2} right")
        for source, found in wrong:
            print(f"    {found!s:15} {source}")


def timeline(name: str) -> list[tuple]:
    """A stored timeline."""
    return profile_gaps.stored()[name]


def compare(gaps: Callable[[list], dict]):
    """The learner's sums for every stored timeline; pictures of two of them."""
    if environment.grading_in_progress():
        return None
    print(f"{'':34}" + "".join(f"{word:>9}" for word in ("total µs", "kernels", *profile_gaps.CAUSES)))
    for name, events in profile_gaps.stored().items():
        kernels = profile_gaps.of(events, "kernel")
        total = max(e[1] for e in kernels) - kernels[0][0]
        waited = gaps(events)
        busy = total - sum(waited.values())
        print(f"{name:34}" + "".join(f"{us:9.0f}" for us in (total, busy, *waited.values())))
    return plots.show(draw, {name: timeline(name) for name in SHOWN})


def draw(timelines: Mapping[str, Sequence[tuple]]) -> Figure:
    """Timelines by name, below each other: a row each for the host's calls, for copies and for kernels."""
    fig = figure(8, 0.4 + 1.6 * len(timelines))
    axes = fig.subplots(len(timelines), 1, squeeze=False)[:, 0]
    told = []
    for axis, (name, events) in zip(axes, timelines.items(), strict=True):
        for row, (engine, color) in enumerate(ENGINES.items()):
            bars = [(e[0], e[1] - e[0]) for e in events if e[2] == engine]
            axis.broken_barh(bars, (row - 0.35, 0.7), color=color, edgecolor="black", lw=0.3)
        axis.set_yticks(range(len(ENGINES)), list(ENGINES), fontsize=9)
        axis.invert_yaxis()
        axis.set_title(name, fontsize=10, loc="left")
        waited = ", ".join(f"{cause} {us:.0f} µs" for cause, us in profile_gaps.account(events).items())
        told.append(f"{name}: {len(events)} events; the GPU waits for {waited}")
    axes[-1].set_xlabel("µs")
    fig.alt = f"Timelines. {'. '.join(told)}."
    return fig


def listing(name: str) -> str:
    """A stored listing of machine code."""
    return profile_sass.listings()[name]


def code(kernel) -> None:
    """Print the accesses to memory in a kernel's machine code for sm_90; needs no GPU."""
    try:
        made = kernel.compiled(10 * CAPABILITY[0] + CAPABILITY[1])
        found = cubin.mix(cubin.sass(made.cubin)[made.lowered[kernel.name]])
    except (nvrtc.Unavailable, cubin.ToolMissing) as e:
        print(e)
        return
    for opcode, count in sorted(found.items()):
        if re.match(r"(LD|ST)[GSL](\.|$)", opcode):
            print(f"{count:4} × {opcode}")
