"""What a launcher launches at a given size: grids, and the arrays of each kernel. No kernel runs, and no data are read.

From the counts of a small case follows what a kernel does on a large one (`steps`): each launch reads and writes the
same share of each array there. Arrays have memory only in name: the launcher gets the addresses of pages
that nobody touches.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from .. import cuda
from ..backends import child, hooks, offline
from ..gpu import device
from ..gpu.device import SECTOR
from ..gpu.dispatch import DispatchMode
from ..spec.exercise import Case, Cost, KernelExercise, Number, Out
from ..spec.inputs import numbers_of, torch_dtype

FILLED = 1 << 22
"""Elements of an array up to which its data are made: launchers look at lengths and tables, not at operands."""

SMALLER = 4
"""How many times smaller the second size is than that of the benchmark."""

SCALED = (("n",), ("M",), ("G",), ("B", "P"), ("B",), ("H", "HK"), ("H",), ("N",))
"""Which sizes make a smaller problem, in the order in which they are tried; P are the pages of all B sequences."""


@dataclass(frozen=True)
class Step:
    """All launches of one kernel at one size. `code`: its number among the machine codes, -1 without one.

    `reads` and `writes` hold bytes by array, counted once for each launch. `again`: bytes of these that a block reads
    once more. `sectors`, `wavefronts` and `barriers` are those of all blocks, scaled from the counted case. `fills`:
    kernels of PyTorch that the launcher starts before these, such as one that sets an array to zero. `partial`: of the
    sectors those that are stored in part. `asked`: the launcher has asked which GPU there is."""

    code: int
    launches: int
    blocks: int
    threads: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    again: int = 0
    sectors: int = 0
    wavefronts: int = 0
    barriers: int = 0
    fills: int = 0
    partial: int = 0
    asked: bool = False

    @property
    def read(self) -> int:
        return sum(self.reads)

    @property
    def written(self) -> int:
        return sum(self.writes)


@dataclass(frozen=True)
class Work:
    """What the kernels do at one size."""

    sizes: dict[str, int]
    steps: tuple[Step, ...]

    @staticmethod
    def from_json(data: dict[str, Any]) -> Work:
        def step(row: dict) -> Step:
            return Step(**{**row, "reads": tuple(row["reads"]), "writes": tuple(row["writes"])})

        return Work(data["sizes"], tuple(step(row) for row in data["steps"]))


@dataclass
class Counted:
    """One kernel in the counted case, all its launches.

    `arrays`: bytes of each array, added up over the launches; `read` and `written`: those touched, each counted once
    for each launch. `wavefronts` are those of global memory, `shared` those of shared memory. `partial`: sectors of
    stores that fill half of their sectors or less; at the edges of arrays others do so, too."""

    blocks: int = 0
    arrays: Counter = field(default_factory=Counter)
    read: Counter = field(default_factory=Counter)
    written: Counter = field(default_factory=Counter)
    again: int = 0
    sectors: int = 0
    wavefronts: int = 0
    shared: int = 0
    barriers: int = 0
    partial: int = 0

    def store(self, size: int, sectors: int) -> None:
        """Count a store of so many bytes."""
        if 2 * size <= SECTOR * sectors:
            self.partial += sectors

    def to_json(self) -> dict:
        return {name: dict(v) if isinstance(v, Counter) else v for name, v in vars(self).items()}

    @staticmethod
    def from_json(data: dict) -> Counted:
        return Counted(**{name: Counter(v) if isinstance(v, dict) else v for name, v in data.items()})


# --- sizes ---------------------------------------------------------------------------------------------------------


def sizes(exercise: KernelExercise) -> list[dict[str, int]]:
    """The benchmark's size, and a smaller one where a size makes all of the problem smaller."""
    if not exercise.bench:
        return []
    return [dict(exercise.bench), *filter(None, [_smaller(exercise)])]


def _smaller(exercise: KernelExercise) -> dict[str, int] | None:
    bench = exercise.bench
    itemsize = torch_dtype(exercise.contract.dtype).itemsize
    whole = exercise.cost(bench, itemsize).bytes
    for names in SCALED:
        if all(bench.get(name, 0) >= SMALLER and bench[name] % SMALLER == 0 for name in names):
            found = {**bench, **{name: bench[name] // SMALLER for name in names}}
            if 0.2 < exercise.cost(found, itemsize).bytes / whole < 0.35:
                return found
    return None


# --- the plan ------------------------------------------------------------------------------------------------------


def launches(exercise: KernelExercise, fn: Callable, case: Case, asked: Asked) -> list[dict]:
    """In a child: each launch as JSON, in order. Raises what the launcher raises."""
    arguments = _arguments(exercise, case)
    names = {t.untyped_storage().data_ptr(): name for name, t in arguments.items() if isinstance(t, torch.Tensor)}
    found: list[dict] = []
    fills = _Fills()

    def arrays(tensors) -> dict[str, int]:
        sizes = {}
        for name, tensor in tensors:
            storage = tensor.untyped_storage()
            known = names.setdefault if exercise.language == "triton" else names.get  # as the two recorders name them
            sizes[known(storage.data_ptr(), name)] = storage.nbytes()
        return sizes

    def on_cuda(kernel, grid, block, shared: int, values: tuple) -> None:
        named = zip((p.name for p in kernel.signature.parameters), values, strict=True)
        tensors = [(n, getattr(v, "tensor", v)) for n, v in named if isinstance(getattr(v, "tensor", v), torch.Tensor)]
        found.append({
            "kernel": kernel.name, "blocks": grid[0] * grid[1] * grid[2], "threads": block[0] * block[1] * block[2],
            "shared": shared, "arrays": arrays(tensors), "fills": fills.taken(), "asked": asked.gpu,
            "compile": {"source": kernel.module.source, "name": kernel.name, "options": list(kernel.module.options)},
        })  # fmt: skip

    def on_triton(function, values: tuple, options: dict, grid: tuple[int, ...]) -> None:
        tensors = list(hooks.tensors([*zip(offline.parameters(function), values, strict=False), *options.items()]))
        blocks = 1
        for n in grid:
            blocks *= n
        found.append({
            "kernel": function.__name__, "blocks": blocks, "threads": 32 * options.get("num_warps", 4),
            "arrays": arrays(tensors), "fills": fills.taken(), "asked": asked.gpu,
            "compile": offline.launch_spec(function, values, options),
        })  # fmt: skip

    redirected = cuda.redirected(on_cuda) if exercise.language == "cuda" else hooks.planning(on_triton)
    with redirected, fills, asked:
        attempt = child.attempt(fn, list(arguments.values()))
    if attempt.problem:
        raise RuntimeError(attempt.problem.message)
    return found


class Asked:
    """Within this context, notes whether a launcher calls `device.current`. It may remember the answer, so what it has
    asked once counts for all its later runs in the same process. Our own code asks, too, for the limits of a launch."""

    def __init__(self):
        self.gpu = False

    def __enter__(self) -> None:
        self._current = device.current
        device.current = self._noted

    def __exit__(self, *_) -> None:
        device.current = self._current

    def _noted(self):
        self.gpu |= sys._getframe(1).f_globals["__name__"] != cuda.kernel.__name__
        return self._current()


class _Fills(DispatchMode):
    """Counts operations of PyTorch that start a kernel on a GPU."""

    OPERATIONS = frozenset(("arange", "cat", "clone", "copy_", "fill_", "full", "ones", "zero_", "zeros", "zeros_like"))

    def __init__(self):
        super().__init__()
        self.count = 0

    def taken(self) -> int:
        """How many since the last call."""
        count, self.count = self.count, 0
        return count

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.count += operation.overloadpacket.__name__ in self.OPERATIONS
        return operation(*args, **(kwargs or {}))


def _arguments(exercise: KernelExercise, case: Case) -> dict[str, Any]:
    """Arguments by name; what is in the larger arrays is undefined."""
    numbers, found = numbers_of(exercise, case, 0), {}
    for name, argument in exercise.arguments.items():
        if isinstance(argument, Number):
            found[name] = numbers[name]
            continue
        shape, dtype = argument.shape(case.sizes), torch_dtype(exercise.dtype(case, name))
        found[name] = torch.empty(shape, dtype=dtype)
        if callable(argument.fill) and not isinstance(argument, Out) and found[name].numel() <= FILLED:
            found[name].copy_(argument.fill(case.sizes, torch.Generator().manual_seed(0)))
    return found


def together(launches: list[dict]) -> list[dict]:
    """Launches of the same kernel with the same threads as one, in the order of the first ones."""
    found: dict[tuple, dict] = {}
    for launch in launches:
        key = (launch["kernel"], launch["threads"], launch.get("shared", 0))
        row = found.setdefault(key, {**launch, "launches": 0, "blocks": 0, "fills": 0, "arrays": Counter()})
        row["launches"] += 1
        row["fills"] += launch.get("fills", 0)
        row["blocks"] += launch["blocks"]
        row["arrays"].update(launch["arrays"])
    return [{**row, "arrays": dict(row["arrays"])} for row in found.values()]


# --- counts at that size -------------------------------------------------------------------------------------------


def steps(
    exercise: KernelExercise, case: Case, at: Mapping[str, int], plan: list[dict], counted: Mapping[str, Counted]
) -> tuple[Step, ...] | None:
    """The counted case's kernels at the planned size; None where one of them was not counted."""
    if any(base(row["kernel"]) not in counted for row in plan):
        return None
    cost = exercise.cost(at, torch_dtype(exercise.contract.dtype).itemsize)
    seen, denser = [counted[base(row["kernel"])] for row in plan], _denser(exercise, case, cost)
    inputs, outputs = set(exercise.arguments) - set(exercise.outputs), set(exercise.outputs)
    reads = _bytes(plan, seen, "read", inputs, cost.read)
    writes = _bytes(plan, seen, "written", outputs, cost.written)
    found = []
    for number, (row, kernel, read, written) in enumerate(zip(plan, seen, reads, writes, strict=True)):
        once = sum(kernel.read.values())
        touched = once + sum(kernel.written.values())
        larger = (sum(read) + sum(written)) / max(1, touched)
        least = min(kernel.sectors, touched // SECTOR)
        found.append(
            Step(
                number,
                row["launches"],
                row["blocks"],
                row["threads"],
                read,
                written,
                round(kernel.again / max(1, once) * sum(read)),
                round(larger * (least + denser * (kernel.sectors - least))),
                round(larger * (kernel.wavefronts + denser * kernel.shared)),
                round(kernel.barriers * row["blocks"] / max(1, kernel.blocks)),
                row.get("fills", 0),
                round(larger * kernel.partial),
                row.get("asked", False),
            )  # fmt: skip
        )
    return tuple(found)


def _denser(exercise: KernelExercise, case: Case, cost: Cost) -> float:
    """How many times the FLOPs per byte there are at this size: a filter with fewer taps reads fewer weights for each
    byte. With more of them larger tiles make up for it, as in a matmul: at most 1."""
    counted = exercise.cost(case.sizes, torch_dtype(exercise.dtype(case)).itemsize)
    return min(1.0, cost.intensity / counted.intensity) if counted.flops and cost.flops else 1.0


def _bytes(plan: list[dict], seen: list[Counted], kept: str, own: set[str], least: int) -> list[tuple[int, ...]]:
    """For each kernel the bytes of its arrays that it reads or writes.

    What must move at this size does move, also where a sequence of the counted case was shorter than its array.
    """
    rows = [
        {a: _share(getattr(kernel, kept)[a] / kernel.arrays[a]) * size for a, size in row["arrays"].items()
         if getattr(kernel, kept).get(a) and kernel.arrays.get(a)}
        for row, kernel in zip(plan, seen, strict=True)
    ]  # fmt: skip
    moved = sum(max((row.get(a, 0) for row in rows), default=0) for a in own)
    more = max(1.0, least / moved) if moved else 1.0
    return [tuple(round(more * n if a in own else n) for a, n in row.items()) for row in rows]


def _share(touched: float) -> float:
    """Touched sectors reach beyond the ends of an array that is no multiple of them."""
    return 1.0 if touched > 0.97 else touched


def base(kernel: str) -> str:
    """The name without template arguments: these may depend on the size."""
    return kernel.split("<")[0].strip()
