"""Interactive pictures: `lab.widgets.occupancy()`. Each has `.state`, `.set(…)` and `.figure()`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import plots
from ..backends import recording
from ..cuda.kernel import Kernel
from ..gpu import device
from ..gpu.formats import FORMATS
from ..gpu.occupancy import occupancy as calculate
from ..gpu.roofline import Ledger, Roof
from ..plots.explorer import Choice, Explorer, Quantity, Slider
from . import hardware
from .hardware_plots import ladder as picture_of_ladder

GPUS = tuple(device.catalogue())


def _gpu(name: str | None) -> str:
    """A name in the catalogue: the requested one, this machine's GPU, or an H100."""
    here = device.current() if name is None else None
    known = device.find(name or (here.name if here else "H100 SXM"))
    if name is not None and known is None:
        raise ValueError(f"no GPU of the catalogue is called {name!r}; there are {', '.join(GPUS)}")
    return known.name if known else "H100 SXM"


# --- occupancy and time --------------------------------------------------------------------------------------------


def occupancy(
    kernel: Kernel | None = None, threads: int = 256, registers: int = 32, shared_kb: int = 0, gpu: str | None = None
) -> Explorer:
    """Which resource limits the blocks on an SM? With a CUDA C++ `kernel`, its actual registers and shared memory.

    This needs no GPU: the kernel is compiled for the one named. The sliders start at what it uses.
    """
    name = _gpu(gpu)
    if kernel is not None:
        from ..cuda import cubin

        taken = cubin.of(kernel, device.catalogue()[name].capability)
        registers, shared_kb = taken.registers, -(-taken.shared // 1024)

    def draw(threads: int, registers: int, shared_kb: int, gpu: str):
        limits = device.catalogue()[gpu].limits
        result = calculate(limits, threads, registers, shared_kb * 1024)
        whose = f"{kernel.signature.name} " if kernel is not None else ""
        title = f"{whose}on an SM of {gpu}: {result.warps} of {limits.max_warps} warps, {100 * result.fraction:.4g} %"
        return plots.occupancy(result, limits.max_warps, title)

    controls = {
        "threads": Slider("threads per block", 32, 1024, 32),
        "registers": Slider("registers per thread", 1, 255),
        "shared_kb": Slider("shared KB per block", 0, 227),
        "gpu": Choice("GPU", GPUS),
    }
    return Explorer(draw, controls, {"threads": threads, "registers": registers, "shared_kb": shared_kb, "gpu": name})


def waves(blocks: int = 160, blocks_per_sm: int = 1, gpu: str = "B200") -> Explorer:
    """How a grid fills a GPU wave by wave, and how much its tail leaves idle."""

    def draw(blocks: int, blocks_per_sm: int, gpu: str):
        return plots.waves(blocks, device.catalogue()[gpu].sms, blocks_per_sm)

    controls = {
        "blocks": Slider("blocks in the grid", 1, 4096),
        "blocks_per_sm": Slider("blocks per SM", 1, 32),
        "gpu": Choice("GPU", GPUS),
    }
    return Explorer(draw, controls, {"blocks": blocks, "blocks_per_sm": blocks_per_sm, "gpu": _gpu(gpu)})


def latency(warps: int = 4, busy: int = 20, latency: int = 400) -> Explorer:
    """One scheduler and its warps: how many hide memory latency?"""
    controls = {
        "warps": Slider("warps", 1, 16),
        "busy": Slider("cycles of work", 1, 200),
        "latency": Slider("cycles of a load", 10, 1000, 10),
    }
    return Explorer(plots.timeline, controls, {"warps": warps, "busy": busy, "latency": latency})


CONDITIONS = {
    "thread % 2 == 0": lambda t: t % 2 == 0,
    "thread % 32 < 8": lambda t: t % 32 < 8,
    "thread < 40": lambda t: t < 40,
    "thread / 32 % 2 == 0 (by warp)": lambda t: t // 32 % 2 == 0,
    "data: 1 of 8 at random": lambda t: (t * 2654435761 >> 7) % 8 == 0,
    "true": lambda t: True,
}


def divergence(condition: str = "thread % 2 == 0", yes: int = 3, no: int = 3) -> Explorer:
    """`if (condition)` with `yes` and `no` instructions on its sides: which lanes are active, and which idle?"""

    def draw(condition: str, yes: int, no: int):
        return plots.divergence(CONDITIONS[condition], yes, no)

    controls = {
        "condition": Choice("if", tuple(CONDITIONS)),
        "yes": Slider("instructions if true", 0, 8),
        "no": Slider("instructions if false", 0, 8),
    }
    return Explorer(draw, controls, {"condition": condition, "yes": yes, "no": no})


# --- memory accesses -----------------------------------------------------------------------------------------------


def coalescing(kernel=None, *arguments, stride: int = 1, offset: int = 0, width: int = 4) -> Explorer:
    """One load of a warp: lane k loads `width` bytes of element `offset + k · stride`. Which sectors move?

    With a CUDA C++ `kernel` that was launched within `lab.record()`: the sectors that each of its lines requested.
    With a Triton launcher and its arguments: the first 32 elements of each access of each program.
    """
    if isinstance(kernel, Kernel):
        return _recorded(kernel, "global")
    if kernel is not None:
        return _traced(kernel, arguments)

    def draw(stride: int, offset: int, width: str):
        size = int(width.split()[0])
        title = f"element {offset} + k · {stride}" if offset else f"element k · {stride}"
        return plots.coalescing(lambda k: size * (offset + k * stride), size, title)

    return _pattern(draw, stride, offset, width, "offset", "first element")


def banks(kernel: Kernel | None = None, stride: int = 1, pad: int = 0, width: int = 4) -> Explorer:
    """A warp reads a column of shared memory: lane k loads `width` bytes at element `k · (stride + pad)`.

    With a CUDA C++ `kernel` that was launched within `lab.record()`: the wavefronts that each of its lines needed.
    """
    if kernel is not None:
        return _recorded(kernel, "shared")

    def draw(stride: int, pad: int, width: str):
        size = int(width.split()[0])
        return plots.banks(lambda k: size * k * (stride + pad), size, f"stride {stride}, padding {pad}")

    return _pattern(draw, stride, pad, width, "pad", "padding of a row")


WIDTHS = ("4 bytes", "8 bytes", "16 bytes")


def _pattern(draw, stride: int, second: int, width: int, name: str, label: str) -> Explorer:
    controls = {
        "stride": Slider("stride, in elements", 0, 64),
        name: Slider(label, 0, 16),
        "width": Choice("bytes per lane", WIDTHS),
    }
    return Explorer(draw, controls, {"stride": stride, name: second, "width": f"{width} bytes"})


def _recorded(kernel: Kernel, space: str) -> Explorer:
    """What the lines of a recorded launch requested from global or shared memory; a slider selects one of them."""
    kept = recording.last(kernel)
    if kept is None:
        raise ValueError(f"{kernel.name} is not recorded yet: launch it inside `with lab.record():`")
    rows = plots.line_costs(kept.lines[kernel.name], space)
    text = kept.sources[kernel.name].splitlines()
    if not rows:
        raise ValueError(f"no line of {kernel.name} accesses {space} memory")

    def draw(access: int):
        return plots.costs(rows, text, access - 1, space, kernel.signature.name)

    return Explorer(draw, {"access": Slider("access", 1, len(rows))}, {"access": 1})


def _traced(launcher, arguments: tuple) -> Explorer:
    """Accesses of a Triton launch, as seen by a warp with one element per lane."""
    from ..backends import trace

    events = [e for e in trace.trace(launcher, *arguments).events if len(e.elements) >= plots.LANES]
    events = [e for e in events if not e.access.startswith("masked")]
    if not events:
        raise ValueError("no program accesses 32 elements at a time: use a larger block")

    def draw(access: int):
        e = events[access - 1]
        title = f"program {e.program} {e.access}s {e.array}, its first 32 elements"
        return plots.coalescing(lambda k: e.itemsize * e.elements[k], e.itemsize, title)

    return Explorer(draw, {"access": Slider("access", 1, len(events))}, {"access": 1})


# --- roofs ---------------------------------------------------------------------------------------------------------

PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8", "fp4")


def roofline(kernels: Mapping[str, Any] | None = None, gpu: str | None = None, precision: str = "fp32") -> Explorer:
    """Kernels under a GPU's roofline. `kernels` maps a name to one of

    a Ledger (drawn hollow, on the roofline), a pair (Ledger, seconds measured), or what `lab.benchmark` returned.
    """
    points = {name: _point(what) for name, what in (kernels or {}).items() if what is not None}

    def draw(gpu: str, precision: str):
        chosen = device.catalogue()[gpu]
        order = [precision, *(p for p in ("fp32", "fp16", "fp8") if p != precision)]
        roofs = [Roof.of(chosen, p) for p in order if chosen.peak(p)]
        missing = "" if chosen.peak(precision) else f": no {precision} pipe, so {roofs[0].name.split()[-1]}"
        return plots.roofline(roofs, points, f"{gpu}, {precision}{missing}")

    controls = {"gpu": Choice("GPU", GPUS), "precision": Choice("pipe", PRECISIONS)}
    return Explorer(draw, controls, {"gpu": _gpu(gpu), "precision": precision})


def _point(what: Any) -> tuple[float, float | None]:
    if hasattr(what, "samples"):  # a Benchmark
        return what.cost.intensity, what.cost.flops / what.samples["yours"].median
    ledger, seconds = what if isinstance(what, tuple) else (what, None)
    if not isinstance(ledger, Ledger):
        raise ValueError(f"use a Ledger, (Ledger, seconds) or a benchmark, not {type(ledger).__name__}")
    return ledger.intensity, ledger.flops / seconds if seconds else None


def ladder(figures: hardware.Figures | None = None, what: str = "latency") -> Explorer:
    """Latency or bandwidth of each level of memory: measured on this GPU, or stored values of an H200."""
    known = figures or hardware.figures()
    controls = {"what": Choice("show", ("latency", "bandwidth"))}
    return Explorer(lambda what: picture_of_ladder(known, what), controls, {"what": what})


def formats(value: float = 3.14159) -> Explorer:
    """The bits of a number in fp32, tf32, bf16, fp16, fp8 and fp4, its rounded value, and the range of each format."""
    return Explorer(lambda value: plots.formats(value, tuple(FORMATS)), {"value": Quantity("value")}, {"value": value})
