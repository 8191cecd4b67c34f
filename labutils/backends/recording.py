"""`lab.record`: what launches do to memory, counted. The same totals for CUDA C++ and Triton.

    with lab.record() as r:
        kernel[grid, block](y, x, n)
    r.totals(), r.findings
    lab.annotate(kernel)

CUDA C++ kernels run in the emulator while they are recorded, on a GPU too, so counts never depend on the machine.
Triton kernels are recorded where they are interpreted: without a GPU.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .. import cuda
from ..gpu import device
from . import emulator, interpreter
from .access import Recorder

TOTALS = (
    "global_load_requests",
    "global_load_sectors",
    "global_store_requests",
    "global_store_sectors",
    "shared_load_wavefronts",
    "shared_store_wavefronts",
)
"""Keys that every `totals()` has; NVIDIA's profiler counts the same."""


@dataclass
class Record:
    """Counts and findings of the launches inside a `with lab.record()`; `lines` by kernel name and source line.

    `launches` names the CUDA C++ kernels in the order of their launches.
    """

    findings: list[str] = field(default_factory=list)
    launches: list[str] = field(default_factory=list)
    lines: dict[str, list[dict]] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    _counts: Counter = field(default_factory=Counter)

    def totals(self) -> dict[str, int]:
        """Counts of everything recorded so far."""
        return {name: 0 for name in TOTALS} | dict(self._counts)


_last: dict[str, Record] = {}
"""The record in which each kernel was last seen, by name: what `annotate` shows."""


@contextlib.contextmanager
def record() -> Iterator[Record]:
    """Record every launch inside the `with`."""
    kept = Record()

    def emulate(kernel: cuda.Kernel, grid, block, shared: int, arguments: tuple) -> None:
        seen = emulator.alone(kernel, grid, block, shared, arguments)
        kept._counts.update(seen["counts"])
        kept.findings += seen["messages"]
        kept.launches.append(kernel.signature.name)
        kept.lines[kernel.name] = seen["lines"]
        kept.sources[kernel.name] = kernel.module.source
        _last[kernel.name] = kept

    recorder = Recorder(poisons=False)  # the results are those of a GPU
    with contextlib.ExitStack() as stack:
        stack.enter_context(cuda.redirected(emulate))
        if not device.has_gpu() and interpreter.ready():
            stack.enter_context(interpreter.recording(recorder, follow_pointers=True))
        try:
            yield kept
        finally:
            kept.findings += [f.sentence() for f in recorder.findings]
            kept._counts.update({k: v for k, v in recorder.counts.to_json().items() if v})


def last(kernel: cuda.Kernel) -> Record | None:
    """The record in which a kernel was last seen."""
    return _last.get(kernel.name)


COLUMNS = """
requests  warp instructions of this line that touch global memory
sectors   32-byte pieces of memory that they touch
per req   sectors for each request: 4 is perfect for 4-byte elements
wavefr.   shared-memory wavefronts that the line takes
degree    wavefronts beside the fewest possible: 1 is free of bank conflicts
lanes     share of a warp's 32 lanes that are active on this line"""
"""What `annotate` shows, a line for each column."""


def annotate(kernel: cuda.Kernel | Callable) -> None:
    """Print the source of a kernel's last recorded launch with what each line costs: of a CUDA C++ kernel, or of each
    one that a launcher names.

    Columns: requests and sectors (global memory), wavefronts (shared memory), the share of lanes that are active.
    """
    kernels = [kernel] if isinstance(kernel, cuda.Kernel) else _named_by(kernel)
    if not kernels:
        name = getattr(kernel, "__name__", repr(kernel))
        print(f"lab.annotate takes a CUDA C++ kernel, or a launcher of one; {name} names no such kernel.")
    for one in kernels:
        _annotate(one)


def _named_by(launcher: Callable) -> list[cuda.Kernel]:
    """The CUDA C++ kernels among the global names that a function uses."""
    code, names = getattr(launcher, "__code__", None), getattr(launcher, "__globals__", {})
    used = (names.get(name) for name in code.co_names) if code else ()
    return [one for one in used if isinstance(one, cuda.Kernel)]


def _annotate(kernel: cuda.Kernel) -> None:
    kept = _last.get(kernel.name)
    if kept is None:
        print(f"{kernel.name} was not recorded yet: launch it inside `with lab.record():`")
        return
    by_line: dict[int, dict] = {row["line"]: row for row in kept.lines[kernel.name]}
    print(f"{'':>4} {'requests':>9} {'sectors':>9} {'per req':>7} {'wavefr.':>8} {'degree':>7} {'lanes':>6}")
    for number, text in enumerate(kept.sources[kernel.name].splitlines(), 1):
        if not text and number == 1:
            continue
        print(f"{number:4} {_columns(by_line.get(number))} | {text}")
    print(COLUMNS)


def _columns(row: dict | None) -> str:
    blank = " " * 51
    if row is None:
        return blank
    requests = row["global_load_requests"] + row["global_store_requests"]
    sectors = row["global_load_sectors"] + row["global_store_sectors"]
    wavefronts = row["shared_load_wavefronts"] + row["shared_store_wavefronts"]
    ideal = row["ideal_shared_load_wavefronts"] + row["ideal_shared_store_wavefronts"]
    cells = [
        f"{requests:9}" if requests else " " * 9,
        f"{sectors:9}" if requests else " " * 9,
        f"{sectors / requests:7.2f}" if requests else " " * 7,
        f"{wavefronts:8}" if wavefronts else " " * 8,
        f"{wavefronts / ideal:7.2f}" if ideal else " " * 7,
        f"{row['lanes'] / row['lane_slots']:6.0%}" if row["lane_slots"] else " " * 6,
    ]
    return " ".join(cells)
