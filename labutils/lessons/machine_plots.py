"""Unit 04: every call that a benchmark makes on a simulated GPU, as a picture."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..gpu.machine import SimulatedGPU
from ..plots.base import PALETTE, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def calls(benchmark: Callable[[SimulatedGPU, Callable], float]) -> Figure:
    """Run `benchmark(machine, call)` on a GPU whose kernel takes 100 µs cold and 40 µs hot; one mark per call."""
    gpu = SimulatedGPU(cold_s=100e-6, hot_s=40e-6)
    reported = benchmark(gpu, gpu.call) * 1e6
    fig = figure(8, 3)
    axis = fig.subplots()
    for hot, label, marker in ((True, "from the L2", "x"), (False, "from memory", "o")):
        at = [k for k, run in enumerate(gpu.runs) if run.hot == hot]
        axis.plot(at, [gpu.runs[k].seconds * 1e6 for k in at], marker, ms=3, color=PALETTE[5 * hot], label=label)
    axis.axhline(reported, color="black", lw=0.8, label=f"your result, {reported:.1f} µs")
    axis.set(xlabel="call", ylabel="µs", yscale="log", title="Every call of your benchmark on a simulated GPU")
    axis.legend(fontsize=8)
    fig.alt = f"Calls of a benchmark: slow clocks first, then hot runs, then cold ones; {reported:.1f} µs reported."
    return fig
