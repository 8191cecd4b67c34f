"""The memory hierarchy as a picture: latency or bandwidth of every level."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..gpu.roofline import units
from ..plots.base import figure
from ..plots.machine import BLUE, ORANGE, WIDTH, _bare
from .hardware import CLAIMED_CYCLES, LEVELS, Figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def ladder(figures: Figures, what: str = "latency", title: str = "") -> Figure:
    """Every level of memory: measured and claimed latency in cycles, or bandwidth of all SMs together."""
    fig = figure(WIDTH, 2.9)
    axis = fig.subplots()
    values = figures.latency_cycles if what == "latency" else figures.bandwidth_gbs
    known = [v for v in values.values() if v]
    parts = []
    for row, level in enumerate(LEVELS):
        value = values.get(level)
        if value is None:
            axis.text(1, row, "not measured", ha="right", va="center", fontsize=9, transform=axis.get_yaxis_transform())
            continue
        form = f"{value:,.0f} cycles" if what == "latency" else units(value * 1e9, "B/s")
        axis.barh(row, value, color=BLUE, height=0.6)
        axis.text(value, row, f"  {form}", va="center", fontsize=10)
        parts.append(f"{level} {form}")
    if what == "latency":
        claimed = [CLAIMED_CYCLES[level] for level in LEVELS]
        axis.plot(claimed, range(len(LEVELS)), "D", color=ORANGE, markeredgecolor="black", label="claimed of every GPU")
        axis.legend(fontsize=9, loc="upper right")
        known += claimed
    low, high = (min(known), max(known)) if known else (1, 10)
    axis.set(xscale="log", xlim=(low / 2, high * 12), yticks=range(len(LEVELS)), yticklabels=LEVELS)
    axis.set_ylim(len(LEVELS) - 0.5, -0.5)
    axis.set_xlabel("cycles from a load to the next, dependent load" if what == "latency" else "GB/s, all SMs together")
    _bare(axis, ("top", "right"))
    fig.alt = f"Memory ladder of {figures.gpu}, {what}: " + (", ".join(parts) or "nothing measured yet") + "."
    fig.suptitle(title or f"{figures.gpu}: {what} of each level", fontsize=11)
    return fig
