"""Plots of memory traffic: a ledger's prediction compared with counts, and bandwidth over row lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..plots.base import PALETTE, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HATCHES = ("", "//", "..", "xx", "\\\\", "--", "++", "oo")
MARKERS = "osD^vPX*"


def ledger(
    versions: Mapping[str, Mapping[str, tuple[float, float]]],
    measured: Mapping[str, float] = {},  # noqa: B006  (only read)
    title: str = "",
    unit: str = "elements",
) -> Figure:
    """A stacked bar per version: its kernels in order, (read, written) each; `measured` is a thin bar."""
    totals = {name: sum(map(sum, kernels.values())) for name, kernels in versions.items()}
    fig = figure(8.0, 1.1 + 0.75 * len(versions))
    axis = fig.subplots()
    for row, (name, kernels) in enumerate(versions.items()):
        left = 0.0
        for k, (kernel, moved) in enumerate(kernels.items()):
            for amount, shade in zip(moved, (1.0, 0.55), strict=True):
                axis.barh(row, amount, left=left, height=0.5, color=PALETTE[k % 8], alpha=shade, edgecolor="black")
                left += amount
            middle = left - sum(moved) / 2
            axis.text(middle, row - 0.36, kernel, ha="center", fontsize=8)
        if name in measured:
            axis.barh(row + 0.37, measured[name], height=0.14, color="black")
            axis.text(measured[name], row + 0.37, f"  counted: {measured[name]:,.0f}", va="center", fontsize=8)
    axis.set(
        yticks=range(len(versions)), ylim=(len(versions) - 0.4, -0.6), xlabel=f"{unit} read (dark), written (light)"
    )
    axis.set_yticklabels([f"{name}\n{total:,.0f}" for name, total in totals.items()])
    worst, best = max(totals.values()), min(totals.values())
    fig.alt = (
        "Ledger: "
        + ", ".join(f"{n} moves {t:,.0f} {unit}" for n, t in totals.items())
        + (f"; predicted speedup {worst / best:.2f} ×.")
    )
    fig.suptitle(f"{title}: predicted speedup {worst / best:.2f} ×" if title else fig.alt, fontsize=10)
    return fig


def bandwidth(lengths: Sequence[int], curves: Mapping[str, Sequence[float]], title: str = "", label="row length"):
    """GB/s of the compulsory bytes over row lengths; "copy" is a dashed line."""
    fig = figure(8.0, 3.6)
    axis = fig.subplots()
    for k, (name, values) in enumerate(curves.items()):
        style = (
            dict(linestyle="--", color="black") if name == "copy" else dict(marker=MARKERS[k % 8], color=PALETTE[k % 8])
        )
        axis.plot(lengths, values, label=name, **style)
    axis.set_xscale("log", base=2)
    axis.set(xlabel=label, ylabel="GB/s of the bytes that must move", ylim=(0, None), title=title)
    axis.set_xticks(lengths, [f"{n:,}" for n in lengths], fontsize=8)
    axis.legend(fontsize=8, ncols=2)
    axis.grid(alpha=0.3)
    parts = [f"{n} {min(v):,.0f} to {max(v):,.0f} GB/s" for n, v in curves.items()]
    fig.alt = f"Bandwidth from {label} {lengths[0]:,} to {lengths[-1]:,}: " + ", ".join(parts) + "."
    return fig
