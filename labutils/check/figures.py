"""What a correct kernel does, in figures: its accesses, counted by source line while it runs, and its machine code.

Figures need no GPU and are the same on every machine: Triton is interpreted, CUDA C++ emulated, and both are compiled
for one target.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ..backends import TIME_LIMIT, child, emulator, interpreter, offline
from ..backends.access import Recorder
from ..cuda import cubin, nvrtc
from ..gpu.device import SECTOR
from ..spec.exercise import Case, KernelExercise
from ..spec.inputs import Run, make_run, torch_dtype
from . import diagnose

TARGET = 90
"""Compute capability that machine code is made for, whichever GPU is here: figures of two machines compare."""

KERNELS = 6
"""Different kernels of one launcher whose machine code is read at most."""


class NoFigures(RuntimeError):
    """There is nothing to explain yet; the message says why."""


@dataclass(frozen=True)
class Line:
    """A line of source and the counts of its accesses."""

    number: int
    text: str
    counts: dict[str, int]


@dataclass(frozen=True)
class Code:
    """Machine code of one kernel. `local` is local memory in bytes per thread: spills, and arrays that are indexed at
    run time. `load` is the widest global load of a thread in bytes; `tma`: the tensor memory accelerator loads.
    `matrix` is the family of tensor-core instructions."""

    kernel: str
    threads: int
    registers: int
    local: int
    shared: int
    load: int | None
    tma: bool
    matrix: str | None


@dataclass(frozen=True)
class Figures:
    """Counts of one case in total and by line, and the machine code of the kernels that it launched."""

    exercise: str
    case: str
    counts: dict[str, int]
    code: tuple[Code, ...]
    lines: tuple[Line, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Figures:
        rows = {"code": Code, "lines": Line}
        made = {key: tuple(row(**r) for r in data.get(key, ())) for key, row in rows.items()}
        return Figures(**{**data, **made, "notes": tuple(data.get("notes", ()))})


def counted_case(exercise: KernelExercise) -> Case:
    """The public case that must move the most bytes."""
    return max(reversed(exercise.cases), key=lambda case: _cost(exercise, case).bytes)


def _cost(exercise: KernelExercise, case: Case):
    return exercise.cost(case.sizes, torch_dtype(exercise.dtype(case)).itemsize)


def figures(exercise: KernelExercise, fn: Callable, seed: int) -> Figures:
    """Run one case in a child process, with everything recorded. Needs a process without a GPU.

    Raises NoFigures where the result is wrong, or this machine cannot run the kernel.
    """
    case = counted_case(exercise)
    run = make_run(exercise, case, seed)
    job = _triton if exercise.language == "triton" else _cuda
    if exercise.language == "triton":
        interpreter.require()
    result = next(child.fork([lambda: job(fn, run)], TIME_LIMIT))
    if isinstance(result, str):
        raise NoFigures(child.end(result).message)
    made, lines, payload = result["code"], result["lines"], result["payload"]
    payload.pop("compile", None)
    outcome = (interpreter if exercise.language == "triton" else emulator).outcome(payload)
    if (found := diagnose.examine(run, outcome, False).diagnosis) is not None:
        raise NoFigures(f"in the case {case.name!r} {found.symptom}")
    notes, code = [], ()
    try:
        code = _triton_code(made) if exercise.language == "triton" else _cuda_code(made)
    except (offline.CompilerFailed, nvrtc.Unavailable, nvrtc.CompileError, cubin.ToolMissing, RuntimeError) as e:
        notes.append(f"No machine code: {e}")
    cost = _cost(exercise, case)
    counts = {name: int(n) for name, n in outcome.counts.items() if n} | {
        "compulsory_read": cost.read, "compulsory_written": cost.written, "compulsory_bytes": cost.bytes
    }  # fmt: skip
    kept = tuple(Line(*line) for line in lines)
    if exercise.language == "triton":
        counts |= _sums(line.counts for line in kept)
    return Figures(exercise.id, case.name, counts, code, kept, tuple(notes))


def _sums(rows: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter = Counter()
    for row in rows:
        total.update(row)
    return dict(total)


# --- CUDA C++ ------------------------------------------------------------------------------------------------------


def _cuda(fn: Callable, run: Run) -> dict:
    """In the child: the case in the emulator."""
    payload, launched = emulator.case_by_launch(fn, run, TIME_LIMIT)
    by_line: dict[tuple, Counter] = {}
    kernels: dict[tuple, dict] = {}
    for launch in launched:
        module, block = launch.kernel.module, launch.block
        text = module.source.splitlines()
        threads = block[0] * block[1] * block[2]
        kernels.setdefault(
            (module.source, launch.kernel.name, threads, launch.shared),
            {"source": module.source, "name": launch.kernel.name, "options": module.options, "threads": threads,
             "shared": launch.shared},
        )  # fmt: skip
        for row in launch.lines:
            number = row["line"]
            place = (number, text[number - 1].strip() if 0 < number <= len(text) else "")
            by_line.setdefault(place, Counter()).update({k: v for k, v in row.items() if v and k != "line"})
    return {
        "payload": payload,
        "code": list(kernels.values())[:KERNELS],
        "lines": [[*place, dict(counts)] for place, counts in by_line.items()],
    }


def _cuda_code(kernels: list[dict]) -> tuple[Code, ...]:
    found = []
    for k in kernels:
        done = nvrtc.compile_source(k["source"], (k["name"],), TARGET, tuple(k["options"]))
        found.append(_read(done.cubin, done.lowered[k["name"]], k["name"], k["threads"], k["shared"]))
    return tuple(found)


# --- Triton --------------------------------------------------------------------------------------------------------


class _ByLine(Recorder):
    """Counts the accesses of each source line, too."""

    def __init__(self):
        super().__init__()
        self.by_line: dict[tuple, Counter] = {}

    def load(self, addresses, mask, itemsize, where, *rest):
        return self._noted("load", super().load(addresses, mask, itemsize, where, *rest), addresses, itemsize, where)

    def store(self, addresses, mask, itemsize, where, changes=None):
        return self._noted(
            "store", super().store(addresses, mask, itemsize, where, changes), addresses, itemsize, where
        )

    def atomic(self, addresses, mask, itemsize, where, *rest):
        return self._noted(
            "atomic", super().atomic(addresses, mask, itemsize, where, *rest), addresses, itemsize, where
        )

    def _noted(self, access: str, ok: np.ndarray, addresses, itemsize: int, where) -> np.ndarray:
        number, source = where()
        distinct = np.unique(addresses[ok])
        sectors = np.unique(distinct // np.uint64(SECTOR)).size
        self.by_line.setdefault((number or 0, source), Counter()).update({
            f"global_{access}_requests": 1,
            f"global_{access}_sectors": int(sectors),
            f"ideal_{access}_sectors": -(-distinct.size * itemsize // SECTOR),
            f"global_{access}_bytes": int(ok.sum()) * itemsize,
            "lanes": int(ok.sum()),
            "lane_slots": int(ok.size),
        })  # fmt: skip
        return ok


def triton_lines(fn: Callable, run: Run) -> list[list]:
    """In a child: [line, text, counts] of each line that accesses memory."""
    recorder = _ByLine()
    interpreter.one_case(fn, run, compiled=False, recorder=recorder)
    return [[*place, dict(counts)] for place, counts in recorder.by_line.items()]


def _triton(fn: Callable, run: Run) -> dict:
    """In the child: the case in the interpreter."""
    recorder = _ByLine()
    payload = interpreter.one_case(fn, run, recorder=recorder)
    return {
        "payload": payload,
        "code": payload["compile"],
        "lines": [[*place, dict(counts)] for place, counts in recorder.by_line.items()],
    }


def _triton_code(specs: list[dict | str]) -> tuple[Code, ...]:
    if refused := [spec for spec in specs if isinstance(spec, str)]:
        raise offline.CompilerFailed(refused[0])
    specs = offline.best_aligned(specs)[:KERNELS]
    found = []
    for spec, binary in zip(specs, offline.Compiler([TARGET]).binaries(specs), strict=True):
        (symbol,) = cubin.resources(binary.cubin)
        found.append(_read(binary.cubin, symbol, spec["kernel"], binary.threads, binary.shared))
    return tuple(found)


def _read(binary: bytes, symbol: str, name: str, threads: int, dynamic: int) -> Code:
    taken, code = cubin.resources(binary)[symbol], cubin.sass(binary)[symbol]
    widths = [w for opcode in ("LDG", "LDGSTS") if (w := cubin.access_width(code, opcode))]
    tma = any(i.opcode.startswith(("UTMALDG", "UBLKCP")) for i in code)
    return Code(
        name, threads, taken.registers, taken.stack, taken.shared + dynamic, max(widths, default=None), tma,
        cubin.matrix_instruction(code),
    )  # fmt: skip
