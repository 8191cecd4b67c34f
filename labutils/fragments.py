"""Which lane of a warp holds what in `mma.m16n8k16`; the attention kernels of unit 20 beside each other."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from . import attention, device, grading, recording

if TYPE_CHECKING:
    from .explorer import Explorer

SHAPES = {"a": (16, 16), "b": (16, 8), "d": (16, 8)}
"""Rows and columns of the three matrices of d += a·b."""


def holds(matrix: str, lane: int) -> list[tuple[int, int]]:
    """(row, column) of the elements that a lane holds, in order: two 16-bit ones to a register of a and b."""
    r, c = lane // 4, lane % 4 * 2
    if matrix == "a":
        return [(r + 8 * (i // 2 % 2), c + 8 * (i // 4) + i % 2) for i in range(8)]
    if matrix == "b":
        return [(c + 8 * (i // 2) + i % 2, r) for i in range(4)]
    return [(r + 8 * (i // 2), c + i % 2) for i in range(4)]


def explorer(lane: int = 6) -> Explorer:
    """What one lane holds of a, b and d: a picture with a slider."""
    from . import plots
    from .explorer import Explorer, Slider

    return Explorer(plots.fragments, {"lane": Slider("lane", 0, 31)}, {"lane": lane})


Launcher = Callable[..., object]


def _arrays(H: int, M: int, N: int, D: int) -> list:
    import torch

    where = "cuda" if device.has_gpu() else "cpu"
    q, k, v = (torch.randn(H, n, D, device=where).half() for n in (M, N, N))
    return [q, k, v, torch.empty_like(q), torch.empty(H, M, device=where)]


def counts(kernels: Mapping[str, Launcher], M: int = 64, N: int = 64, D: int = 64) -> None:
    """What each kernel reads for one head of 64 queries and keys."""
    if grading.in_progress():
        return
    print(f"{M} queries, {N} keys, D = {D}: bytes loaded, bytes read from shared memory, passes for each one needed")
    for name, launch in kernels.items():
        arrays = _arrays(1, M, N, D)
        with recording.record() as seen:
            launch(*arrays)
        t = seen.totals()
        passes = t.get("shared_load_wavefronts", 0) / max(1, t.get("ideal_shared_load_wavefronts", 0))
        print(f"  {name:8} {t.get('global_load_bytes', 0):8,} {t.get('shared_load_bytes', 0):12,} {passes:8.2f}")


def speeds(kernels: Mapping[str, Launcher], B: int = 4, H: int = 32, N: int = 4096, D: int = 128) -> None:
    """TFLOP/s of each kernel beside PyTorch's backends; without a GPU the stored ones of an H200."""
    if grading.in_progress():
        return
    shape = f"({B}, {H}, {N}, {D})"
    if not device.has_gpu():
        fa2, cudnn, triton = attention.H200[shape]
        print(
            f"H200, {shape}: FlashAttention-2 {fa2}, cuDNN {cudnn}, `flash` of unit 17 {triton} TFLOP/s. "
            f"The aim here is half of FlashAttention-2: {fa2 / 2:.0f}."
        )
        return
    import torch

    from .timing import Stopwatch

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
