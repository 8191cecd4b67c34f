"""Unit 03: what a compiler allocates under a register bound, and how much occupancy a copy needs.

Each function takes the learner's own calculator or budget.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import cuda
from ..cuda import cubin, nvrtc
from ..plots.base import PALETTE, figure
from .hardware import Figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TILE = """
__global__ void BOUND tile_kernel(const float* A, const float* B, float* C, int K) {
    float acc[8][8] = {};  // 64 accumulators per thread
    int m = (blockIdx.y * 16 + threadIdx.x / 16) * 8, n = (blockIdx.x * 16 + threadIdx.x % 16) * 8, N = gridDim.x * 128;
    for (int k = 0; k < K; k++) {
        float a[8], b[8];
        for (int i = 0; i < 8; i++) a[i] = A[(m + i) * K + k];
        for (int j = 0; j < 8; j++) b[j] = B[k * N + n + j];
        for (int i = 0; i < 8; i++)
            for (int j = 0; j < 8; j++) acc[i][j] += a[i] * b[j];
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) C[(m + i) * N + n + j] = acc[i][j];
}
"""
"""A matmul whose threads keep an 8 × 8 tile each; BOUND becomes a launch bound."""

THREADS, CAPABILITY = 256, 90

Occupancy = Callable[[int, int, int, int], float]


def compiled(bound: str, capability: int = CAPABILITY):
    """The resources of the tile kernel with that bound, read from machine code; None without a compiler."""
    try:
        return cubin.of(cuda.compile(TILE.replace("BOUND", bound), "tile_kernel"), divmod(capability, 10))
    except (nvrtc.Unavailable, cubin.ToolMissing) as e:
        print(e)


def bounds(occupancy: Occupancy) -> None:
    """Print registers, spills and occupancy of the tile kernel under three bounds."""
    for bound in ("", f"__launch_bounds__({THREADS})", "__maxnreg__(64)"):
        if found := compiled(bound):
            share = occupancy(THREADS, found.registers, found.shared, CAPABILITY)
            print(f"{bound or 'no bound':24} {found.registers:3} registers, {found.stack:3} bytes spilled per thread, "
                  f"occupancy {share:.1%} with blocks of {THREADS} threads")  # fmt: skip


def budgets(occupancy: Occupancy, register_budget: Callable[[int, int, int], int]) -> None:
    """Print the learner's budget beside what the compiler used, for 1 to 8 blocks per SM."""
    print(f"{'blocks per SM':>16} {'your budget':>12} {'compiler used':>14} {'spilled':>8} {'occupancy':>10}")
    for blocks in (1, 2, 3, 4, 6, 8):
        if found := compiled(f"__launch_bounds__({THREADS}, {blocks})"):
            share = occupancy(THREADS, found.registers, found.shared, CAPABILITY)
            budget = register_budget(THREADS, blocks, CAPABILITY)
            print(f"{blocks:16} {budget:12} {found.registers:14} {found.stack:6} B {share:10.1%}")


def staircase(occupancy: Occupancy, capability: int = CAPABILITY) -> Figure:
    """Occupancy over registers per thread, for three block sizes."""
    fig = figure(6.4, 3)
    axis = fig.subplots()
    for k, threads in enumerate((64, 256, 1024)):
        registers = range(16, 65536 // threads + 1 if threads > 256 else 256)
        steps = [100 * occupancy(threads, r, 0, capability) for r in registers]
        axis.step(registers, steps, ("-", "--", ":")[k], where="post", color=PALETTE[k], label=f"{threads} threads")
    axis.set(xlabel="registers per thread", ylabel="occupancy, %", ylim=(0, 105), title="Your calculator, H100")
    axis.legend()
    fig.alt = "Occupancy falls in steps with the registers; for blocks of 1024 threads it drops from 100 % to 50 %."
    return fig


def throttled_copy(figures: Figures) -> Figure:
    """Bandwidth of a copy over occupancy, for 1, 2 and 4 loads in flight per thread."""
    fig = figure(6.4, 3)
    axis = fig.subplots()
    for k, loads in enumerate(sorted({row["loads"] for row in figures.occupancy})):
        rows = [row for row in figures.occupancy if row["loads"] == loads]
        x, y = [100 * row["occupancy"] for row in rows], [row["gbs"] for row in rows]
        axis.plot(x, y, "osD"[k] + ("-", "--", ":")[k], color=PALETTE[k], label=f"{loads} loads per thread")
    axis.set(xlabel="occupancy, %", ylabel="GB/s read and written", title=f"Copy of 1 GiB, {figures.gpu}",
             ylim=(0, None))  # fmt: skip
    if figures.occupancy:
        axis.legend()
    points = "; ".join(f"{r['loads']} loads at {r['occupancy']:.0%}: {r['gbs']:.0f} GB/s" for r in figures.occupancy)
    fig.alt = f"Bandwidth over occupancy. {points or 'Not measured yet'}."
    return fig
