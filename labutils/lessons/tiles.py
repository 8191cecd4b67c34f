"""Tiles of a matrix product: the order in which programs compute them, and which loads hit the L2.

A model that needs no GPU: programs run in waves of `running`, all programs of a wave advance along K together, and the
L2 is an LRU cache of `l2_tiles` tiles of A and B.
"""

from __future__ import annotations

import functools
import inspect
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import environment
from ..gpu import device

if TYPE_CHECKING:
    from ..plots.explorer import Explorer

Order = list[tuple[int, int]]
"""(row, column) of each program's tile, in launch order."""


def by_rows(tiles_m: int, tiles_n: int) -> Order:
    """Row by row: `pid // tiles_n, pid % tiles_n`."""
    return [(pid // tiles_n, pid % tiles_n) for pid in range(tiles_m * tiles_n)]


@dataclass(frozen=True)
class Step:
    """One iteration along K of one wave: its programs, the tiles it loads, those that missed the L2, and what the L2
    holds afterwards. Tiles are ("A", m, k) and ("B", k, n)."""

    programs: range
    k: int
    loads: tuple[tuple[str, int, int], ...]
    missed: tuple[tuple[str, int, int], ...]
    held: frozenset[tuple[str, int, int]]


def steps(order: Order, k_tiles: int, running: int, l2_tiles: int) -> list[Step]:
    """Every iteration of every wave."""
    l2: OrderedDict[tuple[str, int, int], None] = OrderedDict()
    done = []
    for first in range(0, len(order), running):
        programs = range(first, min(first + running, len(order)))
        for k in range(k_tiles):
            loads = [t for p in programs for t in (("A", order[p][0], k), ("B", k, order[p][1]))]
            missed = []
            for tile in loads:
                if tile not in l2:
                    missed.append(tile)
                l2[tile] = None
                l2.move_to_end(tile)
                if len(l2) > l2_tiles:
                    l2.popitem(last=False)
            done.append(Step(programs, k, tuple(loads), tuple(missed), frozenset(l2)))
    return done


def from_memory(order: Order, k_tiles: int, running: int, l2_tiles: int) -> tuple[int, int]:
    """(tiles loaded, tiles loaded from memory)."""
    every = steps(order, k_tiles, running, l2_tiles)
    return sum(len(s.loads) for s in every), sum(len(s.missed) for s in every)


def picture(order: Order, every: list[Step], step: int):
    """A, B and C in tiles: loaded from memory, loaded from the L2, held in the L2; and the tiles of C in progress."""
    from .. import plots

    s, k_tiles = every[step], 1 + every[-1].k
    rows, columns = (1 + max(t[axis] for t in order) for axis in (0, 1))
    cell = min(0.42, 6.0 / (columns + k_tiles))
    fig = plots.figure(2.4 + cell * (columns + k_tiles), 1.6 + cell * (rows + k_tiles))
    ratios = {"width_ratios": [k_tiles, columns], "height_ratios": [k_tiles, rows]}
    (words, of_b), (of_a, of_c) = fig.subplots(2, 2, gridspec_kw=ratios)
    for name, axis, height, width in (("A", of_a, rows, k_tiles), ("B", of_b, k_tiles, columns)):
        _board(axis, height, width, "A (M × K)" if name == "A" else "B (K × N)")
        for i in range(height):
            for j in range(width):
                tile = (name, i, j)
                if tile in s.missed:
                    _tile(axis, i, j, plots.PALETTE[1], "M")
                elif tile in s.loads:
                    _tile(axis, i, j, plots.PALETTE[4], "2")
                else:
                    _tile(axis, i, j, "#DDDDDD" if tile in s.held else "white")
    _board(of_c, rows, columns, "C (M × N), by program ID")
    for p, (m, n) in enumerate(order):
        before = "#DDDDDD" if p < s.programs.start else "white"
        _tile(of_c, m, n, plots.PALETTE[2] if p in s.programs else before, str(p))
    words.axis("off")
    legend = "M  loaded from memory\n2  loaded from the L2\ngray  held in the L2;\n  in C: done"
    words.text(0, 0.5, legend, fontsize=8, va="center", transform=words.transAxes)
    loaded, missed = (sum(len(getattr(x, what)) for x in every[: step + 1]) for what in ("loads", "missed"))
    fig.alt = (
        f"Step {step} of {len(every) - 1}: programs {s.programs.start} to {s.programs.stop - 1}, K tile {s.k}; "
        f"{loaded} tiles loaded so far, {missed} from memory; {sum(len(x.missed) for x in every)} from memory in "
        "total."
    )
    fig.suptitle(fig.alt.replace("; ", ";\n"), fontsize=9)
    return fig


def _board(axis, height: int, width: int, title: str) -> None:
    axis.set(xlim=(0, width), ylim=(height, 0), xticks=[], yticks=[], aspect="equal")
    axis.set_title(title, fontsize=8)


def _tile(axis, i: int, j: int, color: str, mark: str = "") -> None:
    from matplotlib.patches import Rectangle

    axis.add_patch(Rectangle((j, i), 1, 1, facecolor=color, edgecolor="#999999", linewidth=0.5))
    axis.text(j + 0.5, i + 0.5, mark, ha="center", va="center", fontsize=6)


def stepper(order: Order | None, k_tiles: int, running: int, l2_tiles: int) -> Explorer | None:
    """Step through the product: which tiles are loaded when, and from where. None without an order."""
    from ..plots.explorer import Explorer, Slider

    if order is None:
        return None
    every = steps(order, k_tiles, running, l2_tiles)
    first = {"step": len(every) // 3}
    return Explorer(lambda step: picture(order, every, step), {"step": Slider("step", 0, len(every) - 1)}, first)


def recorded(linear, M: int, N: int, tile: tuple[int, int]) -> Order | None:
    """The order in which programs of `linear(a, b, bias, slope, out)` store their tiles; None while it is unfilled."""
    import torch

    from ..backends import trace
    from ..backends.interpreter import Unavailable

    if environment.grading_in_progress():
        return None
    arrays = torch.ones(1, M, 16).half(), torch.ones(1, 16, N).half(), torch.ones(N).half()
    try:
        seen = trace.trace(linear, *arrays, 0.5, torch.empty(1, M, N).half())
    except (trace.TraceFailed, Unavailable) as e:
        print(f"The order cannot be recorded: {e}")
        return None
    corners = {}
    for event in seen.events:
        if event.access == "store" and event.elements:
            row, column = divmod(min(event.elements), N)
            corners[event.program] = (row // tile[0], column // tile[1])
    return [corners[p] for p in sorted(corners)]


def machine_code(kernel, arguments: tuple, options: dict, capability: int) -> str:
    """The multiply instructions of a Triton kernel compiled for this compute capability (75 for 7.5)."""
    from ..backends import offline
    from ..cuda.cubin import ToolMissing, matrix_instruction, mix, sass

    if environment.grading_in_progress():
        return "skipped while grading"
    try:
        (done,) = offline.Compiler((capability,)).cubins([offline.launch_spec(kernel, arguments, options)])
        (code,) = sass(done[capability][0]).values()
    except (offline.CompilerFailed, ToolMissing) as e:
        return f"could not be compiled or disassembled: {e}"
    family, counts = matrix_instruction(code), mix(code)
    if family is None:
        fma = sum(n for opcode, n in counts.items() if opcode.split(".")[0] == "FFMA")
        return f"no tensor cores: {fma} FFMA instructions, one multiply-add per lane each"
    return f"{family}: " + ", ".join(f"{n} {opcode}" for opcode, n in sorted(counts.items()) if "MMA" in opcode)


H200 = {2048: (601, 607), 4096: (721, 731), 8192: (748, 739)}
"""TFLOP/s of unit 14's persistent kernel and of cuBLAS, by M = N = K: NVIDIA H200, fp16, b stored N × K,
torch 2.11, Triton 3.6, one run of `python -m bench.matmul --only squares`."""


def show(*names: str) -> None:
    """Print functions of level 5, which `matmul_planned` has."""
    from . import matmul_planned

    for name in names:
        found = getattr(matmul_planned, name)
        print(inspect.getsource(getattr(found, "fn", found)))


def planned(a, b, c) -> None:
    """c = max(a @ b, 0) with levels 5 and 6, on a Hopper GPU."""
    from .matmul_planned import matmul_relu

    matmul_relu(a, b, c)


def claims(kernel=None) -> None:
    """What course material claims about matmul in Triton, and `kernel` measured on this GPU, or stored figures."""
    if environment.grading_in_progress():
        return
    print('Claim: "Triton reaches 90 to 95 % of the library."')
    if not device.has_gpu():
        for n, (triton, cublas) in H200.items():
            print(f"  H200, {n}³ fp16: {triton} TFLOP/s, cuBLAS {cublas}: {triton / cublas:.0%}")
        print('Claim: "Block pointers map to TMA on Hopper." They are deprecated; tensor descriptors map to the TMA.')
        return
    import torch

    from ..timing.stopwatch import Stopwatch

    watch = Stopwatch()
    for n in (2048, 4096, 8192):
        ring = [[torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2)] for _ in range(2)]
        out = torch.empty(n, n, device="cuda", dtype=torch.float16)
        entries = {"yours": kernel, "cuBLAS": lambda a, b, c: torch.matmul(a, b, out=c)}
        rings = {k: [functools.partial(f, a, b.T, out) for a, b in ring] for k, f in entries.items() if f}
        taken = watch.take_turns(rings)
        rates = {k: 2 * n**3 / s.median / 1e12 for k, s in taken.items()}
        text = ", ".join(f"{k} {r:.0f} TFLOP/s ({r / rates['cuBLAS']:.0%})" for k, r in rates.items())
        print(f"  {torch.cuda.get_device_name()}, {n}³ fp16 (with ReLU, except cuBLAS): {text}")
    print('Claim: "Block pointers map to TMA on Hopper." They are deprecated; tensor descriptors map to the TMA.')
