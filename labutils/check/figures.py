"""What a correct kernel does, in figures: its accesses, counted by source line while it runs, and its machine code.

Figures need no GPU and are the same on every machine: Triton is interpreted, CUDA C++ emulated, and both are compiled
for one target.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from ..backends import TIME_LIMIT, child, emulator, hooks, interpreter, offline
from ..backends.access import Recorder, distinct
from ..cuda import cubin, nvrtc, pipes
from ..gpu import device
from ..gpu.device import SECTOR
from ..spec import traffic
from ..spec.exercise import Case, KernelExercise
from ..spec.inputs import Run, make_run, torch_dtype
from . import diagnose, planned
from .planned import Counted, Work

TARGET = 90
"""Compute capability that machine code is made for, whichever GPU is here: figures of two machines compare."""

MOST_FLOPS = 16_000_000
"""FLOPs of the case that is counted: more take Triton's interpreter a second and longer."""

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
    `matrix` is the family of tensor-core instructions. `schedule`: what a thread executes."""

    kernel: str
    threads: int
    registers: int
    local: int
    shared: int
    load: int | None
    tma: bool
    matrix: str | None
    schedule: pipes.Schedule | None = None

    @staticmethod
    def from_json(data: dict[str, Any]) -> Code:
        plan = data.get("schedule")
        return Code(**{**data, "schedule": pipes.Schedule.from_json(plan) if plan else None})


@dataclass(frozen=True)
class Figures:
    """Counts of one case in total and by line, and the machine code of the kernels at the benchmark's size (of those
    that the case launched, where there is none). `work`: what they do at that size and at a smaller one."""

    exercise: str
    case: str
    counts: dict[str, int]
    code: tuple[Code, ...]
    lines: tuple[Line, ...] = ()
    notes: tuple[str, ...] = field(default=())
    work: tuple[Work, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Figures:
        rows = {"code": Code.from_json, "lines": lambda row: Line(**row), "work": Work.from_json}
        made = {key: tuple(row(r) for r in data.get(key, ())) for key, row in rows.items()}
        return Figures(**{**data, **made, "notes": tuple(data.get("notes", ()))})


def counted_case(exercise: KernelExercise) -> Case:
    """The public case that must move the most bytes, of those that are recorded in a second."""
    most = MOST_FLOPS if exercise.language == "triton" else math.inf
    quick = [case for case in exercise.cases if _cost(exercise, case).flops <= most] or exercise.cases
    return max(reversed(quick), key=lambda case: _cost(exercise, case).bytes)


def _cost(exercise: KernelExercise, case: Case):
    return exercise.cost(case.sizes, torch_dtype(exercise.dtype(case)).itemsize)


def figures(exercise: KernelExercise, fn: Callable, seed: int) -> Figures:
    """Run one case in a child process, with everything recorded. Needs a process without a GPU.

    Raises NoFigures where the result is wrong, or this machine cannot run the kernel.
    """
    with CodeReader(exercise.language) as reader:
        return read(recorded(exercise, fn, seed), reader)


def read(records: Iterable[dict[str, Any]], reader: CodeReader) -> Figures:
    """What `recorded` gives, with machine code: that of the first record is made while the kernels run."""
    for record in records:
        if "figures" in record:
            break
        reader.begin(record["compile"])
    made = Figures.from_json(record["figures"])
    try:
        return replace(made, code=reader.codes(record["compile"]))
    except (offline.CompilerFailed, nvrtc.Unavailable, nvrtc.CompileError, cubin.ToolMissing, RuntimeError) as e:
        return replace(made, notes=(*made.notes, f"No machine code: {e}"))


def recorded(exercise: KernelExercise, fn: Callable, seed: int) -> Iterator[dict[str, Any]]:
    """All of the figures but machine code, as JSON: that of `Figures` under "figures", and under "compile" what is to
    be compiled for it. Before that one with "compile" alone, as far as a plan shows it before a kernel has run.

    Raises NoFigures.
    """
    triton, case = exercise.language == "triton", counted_case(exercise)
    if triton:
        interpreter.require()  # also beside a GPU, where nothing else has patched this process's interpreter
    run, sizes, asked = make_run(exercise, case, seed), planned.sizes(exercise), planned.Asked()
    large = bool(sizes) and _bound_by_memory(exercise)
    jobs = [functools.partial(_planned, exercise, fn, Case("planned", at), asked, planned.together) for at in sizes]
    if not large:
        jobs.append(functools.partial(_planned, exercise, fn, case, asked, _compiled_once))
    counted = functools.partial(_counted, exercise, fn, run, asked)
    answers = child.fork([*jobs, counted], TIME_LIMIT)
    plans = list(itertools.islice(answers, len(jobs)))
    if plans and isinstance(plans[-1], str):  # on data that are not there the launcher comes to no end
        plans, answers = plans[:-1], child.fork([counted], TIME_LIMIT)
    plans = [plan["plan"] for plan in plans] + [None] * (len(jobs) - len(plans))
    if first := plans[0 if large else -1]:
        yield {"compile": _different(first)}
    plans = list(itertools.takewhile(bool, plans[: len(sizes)]))  # without the first the second says little
    result = next(answers)
    if isinstance(result, str):
        raise NoFigures(child.end(result).message)
    result["payload"].pop("compile", None)
    outcome = (interpreter if triton else emulator).outcome(result["payload"])
    if (found := diagnose.examine(run, outcome, False).diagnosis) is not None:
        raise NoFigures(f"in the case {case.name!r} {found.symptom}")
    made, rows = _scaled(exercise, case, outcome.counts, result, list(zip(sizes, plans, strict=False)))
    yield {"figures": made.to_json(), "compile": rows}


def _scaled(
    exercise: KernelExercise, case: Case, counts: dict, result: dict, plans: list[tuple[dict, list[dict]]]
) -> tuple[Figures, list[dict | str]]:
    """The counted case's figures, with what is done at the sizes of the plans, and what is to be compiled for them."""
    counted = {name: Counted.from_json(row) for name, row in result["counted"].items()}
    work = [
        Work(at, steps) for at, plan in plans if (steps := planned.steps(exercise, case, at, plan, counted)) is not None
    ]
    cost, lines = _cost(exercise, case), tuple(Line(*line) for line in result["lines"])
    counts = {name: int(n) for name, n in counts.items() if n} | {
        "compulsory_read": cost.read, "compulsory_written": cost.written, "compulsory_bytes": cost.bytes
    }  # fmt: skip
    if exercise.language == "triton":
        counts |= _sums(line.counts for line in lines)
    counts["needed_sectors"] = traffic.needed([line.counts for line in lines], counts)
    rows = _different(plans[0][1] if work and _bound_by_memory(exercise) else result["code"])
    work = [_with_code(w, plan, rows) for w, (_, plan) in zip(work, plans, strict=False)]
    return Figures(exercise.id, case.name, counts, (), lines, (), tuple(work)), rows


def _different(rows: list[dict | str]) -> list[dict | str]:
    """The rows whose machine code is read: at most KERNELS, and before another launch of one kernel each other one."""
    names = [_name(row) for row in rows]
    again = [name in names[:number] for number, name in enumerate(names)]
    order = sorted(range(len(rows)), key=again.__getitem__) if len(rows) > KERNELS else range(len(rows))
    return [rows[number] for number in order][:KERNELS]


def _name(row: dict | str) -> str:
    """The kernel of what is to be compiled; of what cannot be, nothing."""
    return planned.base(row["kernel"]) if isinstance(row, dict) else ""


def _bound_by_memory(exercise: KernelExercise) -> bool:
    """Then the machine code of the benchmark's size is what matters, with its wide loads. That of a matmul takes the
    compiler longer than a reader waits, where the counted case's has been compiled by the check."""
    peak = device.find("H100 SXM").tensor_tflops["fp16"] * 1e12 / (device.find("H100 SXM").bandwidth_gbs * 1e9)
    cost = exercise.cost(exercise.bench, torch_dtype(exercise.contract.dtype).itemsize)
    return cost.intensity < peak


def _with_code(work: Work, plan: list[dict], rows: list[dict | str]) -> Work:
    """Each step with the number of its kernel's machine code."""
    names, steps = [_name(row) for row in rows], []
    for number, (step, launched) in enumerate(zip(work.steps, plan, strict=True)):
        same = number < len(names) and rows[number] is launched
        name = _name(launched)
        steps.append(replace(step, code=number if same else names.index(name) if name in names else -1))
    return replace(work, steps=tuple(steps))


def _counted(exercise: KernelExercise, fn: Callable, run: Run, asked: planned.Asked) -> dict:
    """In the child: the case, run with everything recorded."""
    with asked:
        return _triton(fn, run) if exercise.language == "triton" else _cuda(fn, run)


def _planned(
    exercise: KernelExercise, fn: Callable, case: Case, asked: planned.Asked, joined: Callable[[list[dict]], list]
) -> dict:
    """In the child: what is launched in that case; nothing where the launcher needs data that are not there."""
    try:
        return {"plan": joined(planned.launches(exercise, fn, case, asked))}
    except (RuntimeError, ValueError, TypeError, offline.NotExtractable):
        return {"plan": None}


def _compiled_once(launches: list[dict]) -> list[dict | str]:
    """Launches as those of the counted case are given to the compiler."""
    if launches and "shared" not in launches[0]:
        return _refusals_or_best([launch["compile"] for launch in launches])
    return list({_identity(launch): launch for launch in reversed(launches)}.values())[::-1]


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
    counted: dict[str, Counted] = {}
    for launch in launched:
        _count(counted.setdefault(planned.base(launch.kernel.name), Counted()), launch, run)
        module, block = launch.kernel.module, launch.block
        text = module.source.splitlines()
        threads = block[0] * block[1] * block[2]
        kernels.setdefault(
            (module.source, launch.kernel.name, threads, launch.shared),
            {"kernel": launch.kernel.name, "threads": threads, "shared": launch.shared,
             "compile": {"source": module.source, "name": launch.kernel.name, "options": list(module.options)}},
        )  # fmt: skip
        for row in launch.lines:
            number = row["line"]
            place = (number, text[number - 1].strip() if 0 < number <= len(text) else "")
            by_line.setdefault(place, Counter()).update({k: v for k, v in row.items() if v and k != "line"})
    return {
        "payload": payload,
        "code": list(kernels.values()),
        "lines": [[*place, dict(counts)] for place, counts in by_line.items()],
        "counted": {name: c.to_json() for name, c in counted.items()},
    }


def _count(found: Counted, launch: emulator.Launched, run: Run) -> None:
    """Add one launch. Within it, what several blocks load is taken to come from a cache."""
    sizes = dict(launch.sizes)
    for name, b in run.buffers.items():  # without the guards; memory of the launcher's own may have the same name
        if sizes.get(name) == b.storage.numel() * b.storage.element_size():
            sizes[name] = b.view.numel() * b.view.element_size()
    found.blocks += launch.grid[0] * launch.grid[1] * launch.grid[2]
    touched: dict[tuple[str, str], int] = Counter()
    for access in launch.accesses:
        if access.space == "shared":
            found.shared += access.wavefronts
            continue
        found.sectors += access.sectors
        found.wavefronts += max(access.requests, access.sectors // 4)
        if access.operation != "store":
            touched["read", access.array] += access.bytes
        if access.operation in ("store", "atomic"):
            touched["written", access.array] += access.bytes
        if access.operation == "store":
            found.store(access.bytes, access.sectors)
    found.barriers += launch.totals["barriers"]
    cost = run.exercise.cost(run.case.sizes, torch_dtype(run.exercise.dtype(run.case)).itemsize)
    for way, kept, names, most in (
        ("load", "read", set(run.buffers) - set(run.outputs), cost.read),
        ("store", "written", set(run.outputs), cost.written),
    ):  # bulk copies do not say which array they move: all inputs, or all outputs
        bulk = launch.totals[f"tma_{way}_bytes"]
        if bulk >= most / 2:
            touched.update({(kept, name): sizes[name] for name in names if (kept, name) not in touched})
        found.sectors += bulk // SECTOR
    for name in {name for _, name in touched if name in sizes}:
        found.arrays[name] += sizes[name]
    for (kept, name), count in touched.items():
        if name in sizes:
            getattr(found, kept)[name] += min(count, sizes[name])


# --- Triton --------------------------------------------------------------------------------------------------------


class _ByLine(Recorder):
    """Counts the accesses of each source line, too."""

    def __init__(self):
        super().__init__()
        self.by_line: dict[tuple, Counter] = {}
        self.counted: dict[str, Counted] = {}
        self._sizes: dict[str, int] = {}
        self._of_launch: Counted | None = None
        self._seen: dict[tuple[str, str], list] = {}

    def begin(self, run: Run, function, args: tuple, kwargs: dict) -> None:
        """Before each launch."""
        self.end()
        names = {b.storage.untyped_storage().data_ptr(): b for b in run.buffers.values()}
        self._of_launch = self.counted.setdefault(function.__name__, Counted())
        arguments = [*zip(offline.parameters(offline.plain_function(function)), args, strict=False), *kwargs.items()]
        for name, tensor in hooks.tensors(arguments):
            buffer = names.get(tensor.untyped_storage().data_ptr())
            size = buffer.view.numel() * buffer.view.element_size() if buffer else tensor.untyped_storage().nbytes()
            name = buffer.name if buffer else self._scratch(tensor) or name
            self._of_launch.arrays[name] += size

    def _scratch(self, tensor) -> str | None:
        """The name that memory of the launcher's own has here already."""
        address = tensor.data_ptr()
        return next((t.name for t in self.arrays if t.base <= address < t.end), None)

    def end(self) -> None:
        """After the last launch: sectors that were touched, each once, and those that a program loads again."""
        for (kept, name), parts in self._seen.items():
            sectors = np.concatenate([part for _, part in parts])
            getattr(self._of_launch, kept)[name] += SECTOR * np.unique(sectors).size
            if kept == "read":
                programs = np.repeat([program for program, _ in parts], [part.size for _, part in parts])
                own = np.unique(sectors * np.uint64(1 << 20) + programs.astype(np.uint64)).size
                self._of_launch.again += SECTOR * (sectors.size - own)
        self._seen = {}
        if self._of_launch:
            self._of_launch.blocks += self.grid

    def _sectors(self, access: str, addresses: np.ndarray, itemsize: int, lanes: int, where) -> np.ndarray:
        number, source = where()
        elements = distinct(addresses)
        touched = super()._sectors(access, elements, itemsize, lanes, where)
        if elements.size and self._of_launch:
            first = int(elements[0])
            name = next((t.name for t in self.arrays if t.base <= first < t.end), "")
            for kept in {"load": ("read",), "store": ("written",), "atomic": ("read", "written")}[access]:
                self._seen.setdefault((kept, name), []).append((self._program, touched))
            self._of_launch.sectors += touched.size
            if access == "store":
                self._of_launch.store(elements.size * itemsize, touched.size)
        self.by_line.setdefault((number or 0, source), Counter()).update({
            f"global_{access}_requests": 1,
            f"global_{access}_sectors": touched.size,
            f"ideal_{access}_sectors": -(-elements.size * itemsize // SECTOR),
            f"global_{access}_bytes": addresses.size * itemsize,
            "lanes": addresses.size,
            "lane_slots": lanes,
        })  # fmt: skip
        return touched


def triton_lines(fn: Callable, run: Run) -> list[list]:
    """In a child: [line, text, counts] of each line that accesses memory."""
    recorder = _ByLine()
    interpreter.one_case(fn, run, compiled=False, recorder=recorder)
    return [[*place, dict(counts)] for place, counts in recorder.by_line.items()]


def _triton(fn: Callable, run: Run) -> dict:
    """In the child: the case in the interpreter."""
    recorder = _ByLine()
    payload = interpreter.one_case(fn, run, recorder=recorder, on_launch=functools.partial(recorder.begin, run))
    recorder.end()
    return {
        "payload": payload,
        "code": _refusals_or_best(payload["compile"]),
        "lines": [[*place, dict(counts)] for place, counts in recorder.by_line.items()],
        "counted": {name: c.to_json() for name, c in recorder.counted.items()},
    }


def _refusals_or_best(specs: list[dict | str]) -> list[dict | str]:
    """What is to be compiled: of launches that differ in alignment only the best aligned; or why nothing can be."""
    if refused := [spec for spec in specs if isinstance(spec, str)]:
        return refused
    return [{"kernel": spec["kernel"], "compile": spec} for spec in offline.best_aligned(specs)]


# --- machine code --------------------------------------------------------------------------------------------------

DISASSEMBLERS = 4
"""The disassemblers are other programs, so that several can run at a time."""


class CodeReader:
    """Machine code of launches: compiled and disassembled, each once. It can begin while something else goes on."""

    def __init__(self, language: str):
        self._compiler = offline.Compiler([TARGET]) if language == "triton" else None  # ready when it gets work
        self._language, self._known = language, {}
        self._thread, self._begun = ThreadPoolExecutor(1), None

    def __enter__(self) -> CodeReader:
        return self

    def __exit__(self, *_) -> None:
        self._thread.shutdown(wait=False)
        if self._compiler and not self._begun:
            self._compiler.close()

    def begin(self, rows: list[dict | str]) -> None:
        """Read the machine code of these launches beside the caller's work. What goes wrong `codes` will say."""
        self._begun = self._thread.submit(self._read, rows)

    def codes(self, rows: list[dict | str]) -> tuple[Code, ...]:
        """The machine code of each launch. Raises what compilers and disassemblers raise."""
        if self._begun:
            wait([self._begun])
        if refused := [row for row in rows if isinstance(row, str)]:
            raise offline.CompilerFailed(refused[0])
        self._read(rows)
        return tuple(self._known[_identity(row)] for row in rows)

    def _read(self, rows: list[dict | str]) -> None:
        new = {_identity(row): row for row in rows if isinstance(row, dict) and _identity(row) not in self._known}
        read = self._triton if self._language == "triton" else self._cuda
        self._known.update(zip(new, read([*new.values()]), strict=True))

    def _triton(self, rows: list[dict]) -> list[Code]:
        if not rows:
            return []
        compiler, self._compiler = self._compiler or offline.Compiler([TARGET]), None
        made = compiler.binaries([row["compile"] for row in rows])
        return _each(lambda row, m: _code(m.cubin, None, row["kernel"], m.threads, m.shared), rows, made)

    def _cuda(self, rows: list[dict]) -> list[Code]:
        def read(row: dict) -> Code:
            source, name, options = (row["compile"][key] for key in ("source", "name", "options"))
            done = nvrtc.compile_source(source, (name,), TARGET, tuple(options))
            return _code(done.cubin, done.lowered[name], name, row["threads"], row["shared"])

        return _each(read, rows)


def _identity(row: dict) -> str:
    """The same for launches with the same machine code and the same threads: a Triton kernel has its threads in what is
    to be compiled."""
    return json.dumps([row["compile"], *((row["threads"], row["shared"]) if "shared" in row else ())], sort_keys=True)


def _each(read: Callable[..., Code], *rows: Iterable) -> list[Code]:
    with ThreadPoolExecutor(DISASSEMBLERS) as pool:
        return list(pool.map(read, *rows))


def _code(binary: bytes, symbol: str | None, name: str, threads: int, dynamic: int) -> Code:
    """Without a `symbol` the binary has one kernel."""
    resources = cubin.resources(binary)
    symbol = symbol or next(iter(resources))
    taken, code = resources[symbol], cubin.sass(binary)[symbol]
    widths = [w for opcode in ("LDG", "LDGSTS") if (w := cubin.access_width(code, opcode))]
    tma = any(i.opcode.startswith(("UTMALDG", "UBLKCP")) for i in code)
    return Code(
        name, threads, taken.registers, taken.stack, taken.shared + dynamic, max(widths, default=None), tma,
        cubin.matrix_instruction(code), pipes.schedule(code),
    )  # fmt: skip
