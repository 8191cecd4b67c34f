"""What the formulas of unit 01 say of real GPUs: peaks beside headlines, ridge points, warps that hide latency.

Each function takes the learner's own formula.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..gpu import device
from ..plots.base import PALETTE, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADLINES = (
    ("H100 SXM", "fp16", "247 × 4 for sparsity = 990", (132, 4, 512, 1830)),
    ("B200", "fp16", "4500", (148, 4, 1024, 1850)),
    ("B200", "fp8", "9000", (148, 4, 2048, 1850)),
    ("B200", "fp4", "20000", (148, 4, 4096, 1850)),
)
"""GPU, precision, TFLOP/s that popular material claims, and (SMs, tensor cores per SM, FMAs per cycle, MHz)."""

GPUS = ("T4", "A100 80GB", "H100 SXM", "H200", "B200")
PRECISIONS = ("fp32", "fp16", "fp8")


def headlines(peak_tflops: Callable[[int, int, int, int], float]) -> None:
    """Print the claimed peaks beside units times clock and beside the catalogue's dense peaks, in TFLOP/s."""
    print(f"{'TFLOP/s':14} {'claimed':>26} {'units × clock':>14} {'dense':>6}")
    for gpu, precision, claim, pipe in HEADLINES:
        dense = device.find(gpu).peak(precision)
        print(f"{gpu + ' ' + precision:14} {claim:>26} {peak_tflops(*pipe):14.0f} {dense:6.0f}")


def ridges(ridge: Callable[[float, float], float]) -> None:
    """Print the ridge points of five NVIDIA GPUs and of other chips, in FLOP per byte."""
    print(f"{'':14} {'SMs or equivalent':>18} {'GB/s':>6} {'cache':>7} {'ridge: fp32':>12} {'fp16':>6} {'fp8':>6}")
    rows = [
        (g.name, str(g.sms), g.bandwidth_gbs, g.l2_mb, *(g.peak(p) for p in PRECISIONS)) for g in map(device.find, GPUS)
    ]
    rows += [
        (o["name"], o["units"], o["bandwidth_gbs"], o["cache_mb"], *(o.get(f"{p}_tflops") for p in PRECISIONS))
        for o in device.others()
    ]
    for name, units, gbs, cache, *peaks in rows:
        points = [f"{ridge(p, gbs):.0f}" if p else "–" for p in peaks]
        print(f"{name:14} {units:>18} {gbs:6.0f} {cache:4.0f} MB {points[0]:>12} {points[1]:>6} {points[2]:>6}")


def warps_by_width(warps_needed: Callable[[int, int, int, int], int], latency_ns: int) -> Figure:
    """Warps that an SM needs for the full bandwidth, over the bytes that each lane keeps in flight."""
    fig = figure(6.4, 3)
    axis = fig.subplots()
    for k, name in enumerate(("T4", "A100 80GB", "H200", "B200")):
        gpu = device.find(name)
        needed = [warps_needed(int(gpu.bandwidth_gbs), latency_ns, gpu.sms, b) for b in (4, 8, 16, 32)]
        axis.plot(range(4), needed, "osD^"[k] + ("-", "--", "-.", ":")[k], color=PALETTE[k], label=name)
    most = device.find("H200").limits.max_warps
    axis.axhline(most, color="black", lw=1)
    axis.text(3.05, most, f"{most}: the maximum\nper SM of an H200", va="center", fontsize=9)
    axis.set(xticks=range(4), xticklabels=["4", "8", "16", "2 × 16"], xlabel="bytes in flight per lane",
             ylabel="warps needed per SM", xlim=(-0.2, 3.8))  # fmt: skip
    axis.legend()
    fig.alt = f"Warps for the full bandwidth at {latency_ns} ns: with floats, more than an SM of an H200 can hold."
    return fig
