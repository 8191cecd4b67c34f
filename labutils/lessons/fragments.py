"""Which lane of a warp holds which elements in `mma.m16n8k16`; unit 20's attention kernels compared."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from .. import environment
from ..backends import recording
from ..gpu import device
from ..plots.base import PALETTE, figure
from . import attention

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..plots.explorer import Explorer

SHAPES = {"a": (16, 16), "b": (16, 8), "d": (16, 8)}
"""Rows and columns of the three matrices of d += a·b."""

COLORS = (PALETTE[1], PALETTE[4], PALETTE[3], PALETTE[6])
"""One color per register of a lane."""


def holds(matrix: str, lane: int) -> list[tuple[int, int]]:
    """(row, column) of the elements that a lane holds, in order: two 16-bit elements per register of a and b."""
    r, c = lane // 4, lane % 4 * 2
    if matrix == "a":
        return [(r + 8 * (i // 2 % 2), c + 8 * (i // 4) + i % 2) for i in range(8)]
    if matrix == "b":
        return [(c + 8 * (i // 2) + i % 2, r) for i in range(4)]
    return [(r + 8 * (i // 2), c + i % 2) for i in range(4)]


def fragments(lane: int) -> Figure:
    """Fragment layout: the lane number in each cell; the given lane's cells are colored by register and numbered."""
    from matplotlib.patches import Rectangle

    fig = figure(9.0, 4.6)
    titles = {"a": "a: 16 × 16", "b": "b: 16 × 8", "d": "d: 16 × 8"}
    parts = []
    for axis, (name, (rows, columns)) in zip(fig.subplots(1, 3, width_ratios=(16, 8, 8)), SHAPES.items(), strict=True):
        axis.set(xlim=(0, columns), ylim=(rows, 0), aspect="equal")
        axis.set_xticks([j + 0.5 for j in range(columns)], [str(j) for j in range(columns)], fontsize=6)
        axis.set_yticks([i + 0.5 for i in range(rows)], [str(i) for i in range(rows)], fontsize=6)
        axis.tick_params(length=0)
        axis.xaxis.tick_top()
        axis.set_title(titles[name], fontsize=9)
        for other in range(32):
            for number, (row, column) in enumerate(holds(name, other)):
                mine = other == lane
                register = number if name == "d" else number // 2
                color = COLORS[register] if mine else "white"
                axis.add_patch(Rectangle((column, row), 1, 1, facecolor=color, edgecolor="#BBBBBB", lw=0.5))
                text = f"{name}{register}" if mine else str(other)
                axis.text(
                    column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=7 if mine else 5,
                    color="black" if mine else "#777777", weight="bold" if mine else "normal",
                )  # fmt: skip
        parts.append(f"of {name} " + ", ".join(map(str, holds(name, lane))))
    fig.suptitle(f"Lane {lane} holds the colored cells; gray numbers are the other lanes", fontsize=10)
    fig.alt = f"Lane {lane} holds (row, column) " + "; ".join(parts) + "."
    return fig


def explorer(lane: int = 6) -> Explorer:
    """What one lane holds of a, b and d: a figure with a slider."""
    from ..plots.explorer import Explorer, Slider

    return Explorer(fragments, {"lane": Slider("lane", 0, 31)}, {"lane": lane})


Launcher = Callable[..., object]


def _arrays(H: int, M: int, N: int, D: int) -> list:
    import torch

    where = "cuda" if device.has_gpu() else "cpu"
    q, k, v = (torch.randn(H, n, D, device=where).half() for n in (M, N, N))
    return [q, k, v, torch.empty_like(q), torch.empty(H, M, device=where)]


def counts(kernels: Mapping[str, Launcher], M: int = 64, N: int = 64, D: int = 64) -> None:
    """What each kernel loads for one head of 64 queries and keys."""
    if environment.grading_in_progress():
        return
    print(f"{M} queries, {N} keys, D = {D}: bytes loaded, bytes read from shared memory, wavefronts / minimum")
    for name, launch in kernels.items():
        arrays = _arrays(1, M, N, D)
        with recording.record() as seen:
            launch(*arrays)
        t = seen.totals()
        passes = t.get("shared_load_wavefronts", 0) / max(1, t.get("ideal_shared_load_wavefronts", 0))
        print(f"  {name:8} {t.get('global_load_bytes', 0):8,} {t.get('shared_load_bytes', 0):12,} {passes:8.2f}")


def speeds(kernels: Mapping[str, Launcher], B: int = 4, H: int = 32, N: int = 4096, D: int = 128) -> None:
    """TFLOP/s of each kernel and of PyTorch's backends; without a GPU, stored figures of an H200."""
    if environment.grading_in_progress():
        return
    shape = f"({B}, {H}, {N}, {D})"
    if not device.has_gpu():
        fa2, cudnn, triton = attention.H200[shape]
        print(
            f"H200, {shape}: FlashAttention-2 {fa2}, cuDNN {cudnn}, `flash` of unit 17 {triton} TFLOP/s. "
            f"The goal here is half of FlashAttention-2: {fa2 / 2:.0f}."
        )
        return
    import torch

    from ..timing.stopwatch import Stopwatch

    rings: dict[str, list] = {}
    for _ in range(2):
        q, k, v, out, lse = _arrays(B * H, N, N, D)
        for name, launch in kernels.items():
            rings.setdefault(name, []).append(functools.partial(launch, q, k, v, out, lse))
        four = (x.view(B, H, N, D) for x in (q, k, v))
        for name, call in attention.backends(*four).items():
            rings.setdefault(name, []).append(call)
    peak = device.current().peak("fp16")
    print(f"{torch.cuda.get_device_name()}, {shape} fp16:")
    for name, sample in Stopwatch().take_turns(rings).items():
        rate = attention.flops(B, H, N, D) / sample.median
        share = f", {rate / peak:.0%} of the peak" if peak else ""
        print(f"  {name:18} {rate / 1e12:6.0f} TFLOP/s{share}", flush=True)
