"""The levels of unit 15 compared: their memory accesses, counted, and their speed on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from .. import environment
from ..backends import recording
from ..gpu import device

Launcher = Callable[..., None]
Levels = Mapping[str, Launcher]

CLAIMS = (
    'Claim: "naive reaches 1 to 2 % of the peak, a register tile 6 %, a shared tile 20 %, tensor cores 70 %, an '
    'asynchronous pipeline 91 %."'
)
H200 = {
    "by columns": 0.50,
    "naive": 5.74,
    "shared": 8.86,
    "register column": 16.57,
    "register": 28.82,
    "vector": 36.42,
    "double": 47.93,
    "cuBLAS fp32": 51.31,
    "tensor": 112.3,
    "pipelined": 421.6,
    "cuBLAS fp16": 745.4,
}
"""TFLOP/s of unit 15's levels at M = N = K = 4096 (the first level: 2048) on an NVIDIA H200, torch 2.11, CUDA 13.0,
one run of `python -m bench.matmul --only ladder`."""

SLOW = "by columns"
"""The level that takes so long that it is timed at half the size."""

COLUMNS = {
    "load requests": ("global_load_requests", None),
    "sectors each": ("global_load_sectors", "global_load_requests"),
    "loaded/stored": ("global_load_sectors", "global_store_sectors"),
    "shared/stored": ("shared_load_bytes", "global_store_bytes"),
    "conflicts": ("shared_load_wavefronts", "ideal_shared_load_wavefronts"),
    "barriers": ("barriers", None),
}
"""Heading -> counter, and the counter that divides it."""


def counts(fp32: Levels, fp16: Levels, size: int = 128, depth: int = 64) -> dict[str, dict[str, float]]:
    """COLUMNS for each level at size × size, K = depth: one whole tile of the largest level."""
    import torch

    place, table = "cuda" if device.has_gpu() else "cpu", {}
    for levels, dtype in ((fp32, torch.float32), (fp16, torch.float16)):
        a = torch.ones(size, depth, dtype=dtype, device=place)
        b, c = torch.ones(depth, size, dtype=dtype, device=place), torch.empty(size, size, dtype=dtype, device=place)
        for name, launch in levels.items():
            with recording.record() as seen:
                launch(a, b, c)
            t = seen.totals()
            table[name] = {
                heading: t.get(count, 0) / (t.get(per) or 1) if per else t.get(count, 0)
                for heading, (count, per) in COLUMNS.items()
                if dtype == torch.float32 or "shared" not in count  # only estimated for wmma
            }
    return table


def show_counts(fp32: Levels, fp16: Levels) -> None:
    """Print the table of counts."""
    if environment.grading_in_progress():
        return
    print(f"128 × 128, K = 64\n{'':16}" + "".join(f"{h:>15}" for h in COLUMNS))
    for name, row in counts(fp32, fp16).items():
        print(f"{name:16}" + "".join(f"{row[h]:15,.6g}" if h in row else f"{'?':>15}" for h in COLUMNS))


def rates(fp32: Levels, fp16: Levels, size: int = 4096, seconds: float | None = None) -> dict[str, float]:
    """TFLOP/s of each level at size³, interleaved with the library. Needs a GPU.

    The level called SLOW runs at half the size. TF32 is off, PyTorch's default. `seconds` shortens the
    sampling.
    """
    import torch

    from ..timing.stopwatch import Stopwatch

    limits = {} if seconds is None else {"min_seconds": seconds, "max_seconds": seconds}
    found, watch = {}, Stopwatch(**limits)
    for levels, dtype, library in ((fp32, torch.float32, "cuBLAS fp32"), (fp16, torch.float16, "cuBLAS fp16")):
        if not levels:
            continue
        full = [[torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2)] for _ in range(2)]
        half = [[x[: size // 2, : size // 2].contiguous() for x in pair] for pair in full]
        for name, launch in levels.items():
            ring, n = (half, size // 2) if name == SLOW else (full, size)
            c = torch.empty(n, n, device="cuda", dtype=dtype)
            calls = {name: launch, library: lambda a, b, c: torch.matmul(a, b, out=c)}
            taken = watch.take_turns({k: [partial(f, a, b, c) for a, b in ring] for k, f in calls.items()})
            found[name] = 2 * n**3 / taken[name].median / 1e12
            found[library] = 2 * n**3 / taken[library].median / 1e12
    return {name: found[name] for name in _names(fp32, fp16)}


def _names(fp32: Levels, fp16: Levels) -> list[str]:
    """The levels and cuBLAS, in the order of the picture."""
    return [*fp32, *(["cuBLAS fp32"] if fp32 else []), *fp16, *(["cuBLAS fp16"] if fp16 else [])]


def show_rates(fp32: Levels, fp16: Levels):
    """A bar chart of the levels with cuBLAS and the peak; without a GPU, with figures stored from an H200."""
    if environment.grading_in_progress():
        return None
    print(CLAIMS)
    if device.has_gpu():
        found, gpu = rates(fp32, fp16), device.current()
    else:
        print("This machine has no GPU. The same levels, measured on an H200:")
        found, gpu = {name: H200[name] for name in _names(fp32, fp16)}, device.find("H200")
    for name, rate in found.items():
        half = name in fp16 or name.endswith("fp16")
        peak = gpu.peak("fp16" if half else "fp32")
        share = f", {rate / peak:.1%} of the peak" if peak else ""
        library = found["cuBLAS fp16" if half else "cuBLAS fp32"]
        print(f"{name:16} {rate:8.2f} TFLOP/s, {rate / library:6.1%} of cuBLAS{share}")
    return picture(found, gpu)


def picture(found: Mapping[str, float], gpu: device.GPU):
    """Bars on a logarithmic scale, with the two peaks as lines. None without matplotlib."""
    from .. import plots

    try:
        fig = plots.figure(8.0, 0.8 + 0.32 * len(found))
    except plots.Unavailable as e:
        print(f"No picture: {e}")
        return None
    axis = fig.subplots()
    names = list(found)
    colors = [plots.PALETTE[1 if n.startswith("cuBLAS") else 0] for n in names]
    axis.barh(names, [found[n] for n in names], color=colors)
    for k, n in enumerate(names):
        axis.text(found[n], k, f" {found[n]:.3g}", va="center", fontsize=8)
    for precision, style in (("fp32", "--"), ("fp16", ":")):
        if peak := gpu.peak(precision):
            axis.axvline(peak, color="black", linestyle=style, linewidth=1)
            axis.text(peak, -0.9, f"{precision} peak", fontsize=7, ha="right")
    axis.set(xscale="log", xlabel=f"TFLOP/s of {gpu.name}, M = N = K = 4096", ylim=(len(names) - 0.4, -1.2))
    fig.alt = f"Ladder on {gpu.name}: " + ", ".join(f"{n} {found[n]:.3g}" for n in names) + " TFLOP/s."
    return fig
