"""The CUDA C++ emulator as a backend: kernels run on the CPU in a child process, every thread and access checked.

NVIDIA's own compiler reads the text first where it is installed (its messages, and proof that a GPU would take it);
`simt` then builds and runs it. A launch outside a check runs in a child too, on copies of the tensors.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from .. import cuda, environment
from ..cuda import cubin, nvrtc
from ..cuda.signature import convert
from ..cuda.tensor_map import TensorMap
from ..spec.inputs import Run, shared_bytes
from . import TIME_LIMIT, Outcome, Problem, child, launch_order, simt
from .errors import NeedsGpu
from .interpreter import Unavailable
from .simt import counting, elf

TARGET = 90
"""The compute capability that NVRTC compiles for beside the emulator. Its diagnostics are the same for all, but for
inline PTX such as `stmatrix`; which loads it joins is not, and the counters are an H100's."""

FATAL = {"endless-loop": "timeout", "stack-overflow": "died", "crash": "died"}
"""Findings that end a launch, as kinds of problems."""

PICTURED = 8
"""Findings kept of one run."""


@dataclass(frozen=True)
class LaunchFinding:
    """What the emulator found, in the form that every backend's findings have."""

    kind: str
    array: str
    index: int | None
    line: int
    message: str
    advice: str
    past_end: bool = False
    note: bool = False
    """A mistake in an exercise only (`simt.Finding.note`)."""

    def sentence(self) -> str:
        return self.message + (f" (line {self.line})" if self.line else "")


@dataclass(frozen=True)
class Launched:
    """One launch that was emulated: its sizes, dynamic shared memory in bytes, counters of each line and access, its
    arrays in the order of their numbers, and what gives the source line of a request's `pc`."""

    kernel: cuda.Kernel
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    lines: list[dict]
    accesses: list[simt.Access]
    arrays: list[str]
    line_of: Callable[[set[int]], dict[int, int]]
    sizes: dict[str, int] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    """`sizes`: bytes of each array. `totals`: counters of the launch, with those that belong to no line."""


@dataclass
class _Session:
    """What one run has seen so far. `arrays` are the buffers of the check, by name."""

    arrays: dict[str, simt.MemoryRange]
    lengths: dict[str, int]
    launches: int = 0
    launched: list[Launched] = field(default_factory=list)
    findings: list[LaunchFinding] = field(default_factory=list)
    counts: Counter = field(default_factory=Counter)
    printed: list[str] = field(default_factory=list)
    shared_bytes: int = 0
    time_limit: float = TIME_LIMIT
    order: int = 0
    """Seeds the order in which blocks run."""


class KernelStopped(RuntimeError):
    """The emulator ended a launch; the message says why."""


_session: _Session | None = None
_trace = -1
"""In a child whose kernels another process counts (`counted`): where its launches write what they ask for."""


def prepare(module: cuda.Module, names: tuple[str, ...]) -> None:
    """Build kernels, so that an error shows when the cell is run. Raises CompileError or Unavailable.

    While a class is graded it is enough that NVIDIA's compiler reads them: a kernel is built when it is launched.
    """
    enough = _read if environment.grading_in_progress() and nvrtc.available() else _build
    for name in names:
        enough(module, name)


def first_build() -> str:
    """What to tell a reader before the first kernel on this machine is built, which takes seconds; later ""."""
    if environment.grading_in_progress() or simt.built_before():
        return ""
    return "Building the CUDA C++ emulator. This happens once on this machine and takes about ten seconds."


def _read(module: cuda.Module, name: str) -> nvrtc.Compiled:
    return nvrtc.compile_source(module.source, (name,), nvrtc.only_for(module.source) or TARGET, module.options)


def _forms(module: cuda.Module, name: str) -> dict[int, cubin.Form] | None:
    """What a kernel's machine code does with shared memory and atomics, by line; None: nobody can tell. It is kept in
    the cache."""
    if not re.search(r"__shared__|atomic", module.source):
        return {}
    try:
        compiled = _read(module, name)
        return cubin.forms(cubin.sass(compiled.cubin)[compiled.lowered[name]])
    except (nvrtc.Unavailable, cubin.ToolMissing, OSError):
        return None


@functools.lru_cache(maxsize=256)
def _build(module: cuda.Module, name: str) -> simt.HostKernel:
    with _refused():
        source = simt.expand(module.source, nobody_defines=_nobody_defines)
        module = dataclasses.replace(module, source=source)  # both compilers get the same text
        if nvrtc.available():
            _read(module, name)
        kernel = simt.compile(module.source, [name]).kernels[name]
        if (forms := _forms(module, name)) is not None:
            kernel.use_forms(forms)
        return kernel


def _nobody_defines(includes: list[str], names: list[str]) -> bool:
    """Are these macros, which a cell asks for and does not define, defined nowhere? What only NVIDIA's compiler with
    the cell's headers can say. The judge takes no such cell."""
    if environment.grading_in_progress() or not nvrtc.available():
        return False
    lines = [f"#include {header}" for header in includes]
    lines += [f"#ifdef {name}\n#error {name}\n#endif" for name in names]
    try:
        nvrtc.compile_source("\n".join([*lines, "__global__ void k() {}"]), (), TARGET)
    except nvrtc.CompileError:
        return False
    return True


def build_files(source: str, name: str, options: tuple[str, ...]) -> None:
    """Have NVIDIA's compiler read a kernel of a submission and build it into the cache, and load nothing: what compiles
    it afterwards starts no program. Inline PTX is left to a GPU. Raises CompileError or Unavailable."""
    with _refused():
        source = simt.expand(source)
        if nvrtc.available():
            _read(cuda.Module(source, {}, options), name)
            _forms(cuda.Module(source, {}, options), name)
        simt.ptx.refuse(source)
        simt.build_files(source, name)


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    """Refusals of this machine's compiler, as those of NVIDIA's."""
    try:
        yield
    except simt.NeedsGpu as e:
        raise NeedsGpu(str(e)) from None
    except simt.CompileError as e:
        raise nvrtc.CompileError(str(e)) from None
    except simt.NoCompiler as e:
        raise Unavailable(str(e)) from None
    except OSError as e:
        raise Unavailable(simt.not_written(e.strerror or str(e))) from None


def launch(kernel: cuda.Kernel, grid, block, shared: int, arguments: tuple) -> None:
    """One launch, checked. Inside a check it adds to what the check sees; elsewhere it prints what it found."""
    if _session is not None:
        _run(_session, kernel, grid, block, shared, arguments)
        return
    seen = alone(kernel, grid, block, shared, arguments)
    print(seen["printed"], end="")
    for message in seen["messages"]:
        print(f"{kernel.name}: {message}")
    for note in seen["notes"]:
        print(f"{kernel.name}, a note: {note}")


def _run(session: _Session, kernel: cuda.Kernel, grid, block, shared, arguments) -> None:
    values = convert(kernel.signature, arguments, "cpu")
    built = _build(kernel.module, kernel.name)
    arrays = dict(session.arrays)
    for parameter, a in zip(kernel.signature.parameters, arguments, strict=True):
        if isinstance(a, torch.Tensor) and not _known(arrays, a.data_ptr()):  # the launcher's own scratch
            arrays[parameter.name] = simt.MemoryRange(a.data_ptr(), a.numel(), a.element_size())
    session.launches += 1
    numbers = [t(v) for v, t in values]
    try:
        result = built.launch(
            grid, block, shared, numbers, arrays=arrays, time_limit=session.time_limit, cluster=kernel.cluster,
            trace=_trace, order=session.order,
        )  # fmt: skip
    except simt.LaunchError as e:
        raise cuda.LaunchError(str(e)) from None
    session.printed.append(result.printed)
    session.counts.update({k: v for k, v in result.counters.to_json().items() if v})
    session.shared_bytes = max(session.shared_bytes, result.shared_bytes)
    lines = [{"line": n} | c.to_json() for n, c in result.report.lines.items()]
    line_of = built.module.built(True).lines.of
    sizes = {name: a.elements * a.itemsize for name, a in arrays.items()}
    session.launched.append(
        Launched(
            kernel,
            grid,
            block,
            shared,
            lines,
            result.report.accesses,
            list(arrays),
            line_of,
            sizes,
            result.counters.to_json(),
        )  # fmt: skip
    )
    for f in result.findings:
        if f.kind != "needs-gpu" and len(session.findings) < PICTURED:
            past_end = f.index is not None and f.index == session.lengths.get(f.array)
            session.findings.append(
                LaunchFinding(f.kind, f.array, f.index, f.line, f.message, f.advice, past_end, f.note)
            )
    fatal = [f for f in result.findings if f.fatal]
    if fatal and fatal[0].kind == "needs-gpu":
        raise NeedsGpu(f"line {fatal[0].line}: {fatal[0].message}")
    if fatal:
        raise KernelStopped(fatal[0].message)


@dataclass(frozen=True)
class OneBlock:
    """One block of a launch: its arrays in the order of their numbers, findings as sentences, what gives the source
    line of a request's `pc`, and the static shared variables of the module."""

    arrays: dict[str, simt.MemoryRange]
    messages: list[str]
    lines: Callable[[set[int]], dict[int, int]]
    shared: list[elf.Variable]


def one_block(kernel: cuda.Kernel, grid, block, shared: int, arguments: tuple, number: int, trace: int) -> OneBlock:
    """Run block `number` of a launch; the file descriptor `trace` gets a film of it. Call this in a child."""
    values = [t(v) for v, t in convert(kernel.signature, arguments, "cpu")]
    built, arrays = _build(kernel.module, kernel.name), {}
    for parameter, a in zip(kernel.signature.parameters, arguments, strict=True):
        if isinstance(a, torch.Tensor):
            arrays[parameter.name] = simt.MemoryRange(a.data_ptr(), a.numel(), a.element_size())
    result = built.launch(
        grid, block, shared, values, arrays=arrays, time_limit=TIME_LIMIT, cluster=kernel.cluster, trace=trace,
        blocks=[number], film=True,
    )  # fmt: skip
    build = built.module.built(True)
    messages = [f"{f.message}. {f.advice}" for f in result.findings]
    return OneBlock(arrays, messages, build.lines.of, build.symbols.shared)


def _known(arrays: dict[str, simt.MemoryRange], address: int) -> bool:
    return any(a.address <= address < a.address + a.elements * a.itemsize for a in arrays.values())


def alone(
    kernel: cuda.Kernel, grid, block, shared: int, arguments: tuple, time_limit: float = TIME_LIMIT
) -> dict[str, Any]:
    """A launch outside a check: in a child, on copies, so that nothing it does can hurt the notebook.

    Gives `messages` (findings as sentences), of them what only a GPU can run in `unchecked`, `notes` on what a GPU of
    today does as it is meant, `printed`, the `counts` and the counters of each line in `lines`. Tensors may be on any
    device; results are copied back to them.
    """
    for a in arguments:
        if isinstance(a, torch.Tensor) and not a.is_contiguous():
            convert(kernel.signature, arguments, a.device.type)  # refuses it, and names the parameter
    shared_by: dict[tuple, torch.Tensor] = {}
    copies = tuple(copied(a, shared_by) for a in arguments)
    convert(kernel.signature, copies, "cpu")  # what does not fit is said here, not in the child
    _build(kernel.module, kernel.name)

    def job() -> dict:
        session = _Session({}, {}, time_limit=own_limit(time_limit))
        unchecked = ""
        try:
            _run(session, kernel, grid, block, shared, copies)
        except KernelStopped:
            pass  # the finding that stopped it is among those said
        except NeedsGpu as e:
            unchecked = f"{e}."
        messages, notes = (
            [f"{f.sentence()}. {f.advice}" for f in session.findings if f.note == is_note] for is_note in (False, True)
        )
        messages += [unchecked] * bool(unchecked)
        counts, printed = _counts(session.counts, session.launches), "".join(session.printed)
        lines = session.launched[-1].lines if session.launched else []
        return {
            "messages": messages, "notes": notes, "unchecked": unchecked, "printed": printed, "counts": counts,
            "lines": lines,
        }  # fmt: skip

    result = next(child.fork([job], time_limit))
    if isinstance(result, str):
        raise KernelStopped(child.end(result).message)
    for a, copy in zip(arguments, copies, strict=True):
        if isinstance(a, TensorMap):
            a, copy = a.tensor, copy.tensor
        if isinstance(a, torch.Tensor):
            a.copy_(copy)
    return result


def copied(argument, known: dict[tuple, torch.Tensor]):
    """An argument whose memory a child can write to; the same copy for the same tensor."""
    if isinstance(argument, TensorMap):
        return dataclasses.replace(argument, tensor=copied(argument.tensor, known))
    if not isinstance(argument, torch.Tensor):
        return argument
    key = (argument.data_ptr(), argument.dtype, *argument.shape, *argument.stride())
    if key not in known:
        known[key] = _share(argument)
    return known[key]


def _share(tensor: torch.Tensor) -> torch.Tensor:
    """A copy on the CPU that a child can write to: laid out as the tensor is, and as far from a multiple of 256 bytes
    as that is on a GPU."""
    size = tensor.element_size()
    span = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) if tensor.numel() else 0
    start = tensor.storage_offset() * size % 256
    copy = shared_bytes(start + span * size)[start:].view(tensor.dtype).as_strided(tensor.shape, tensor.stride())
    return copy.copy_(tensor)


class Emulator:
    """The backend of CUDA C++ exercises on a machine without a GPU."""

    name = "emulator"
    device = "cpu"
    can = frozenset({"record"})

    def __init__(self, only: int | None = None):
        self._target = nvrtc.target(only or TARGET)

    def describe(self) -> str:
        compiled = f"; compiled by NVRTC for {self._target}" if nvrtc.available() else ""
        return f"CUDA C++ emulator on the CPU{compiled}"

    def broken(self) -> None:
        return None  # each run has a process of its own

    def allocate(self, count: int) -> torch.Tensor:
        return shared_bytes(count)

    def run(self, fn: Callable, runs: Sequence[Run], time_limit: float = TIME_LIMIT) -> Iterator[Outcome]:
        jobs = [functools.partial(one_case, fn, run, time_limit) for run in runs]
        for result in counted(jobs, time_limit):
            if isinstance(result, str):
                yield Outcome(child.end(result), seconds=time_limit)
                return
            yield outcome(result)

    def compile_problem(self, fn: Callable) -> Problem | None:
        """NVRTC has read every kernel before it ran."""
        return None


def own_limit(time_limit: float) -> float:
    """Seconds after which a launch ends itself: sooner than its process is ended, because only it knows the line."""
    return max(0.5, time_limit - 1.0)


def counted(jobs: Sequence[Callable[[], dict]], time_limit: float) -> Iterator[dict | str]:
    """`child.run` for jobs that call `one_case`, with counts from a process that no kernel's code can write to.

    The child's own counts are not looked at. A case whose requests cannot be counted has failed.
    """
    if sys.platform != "linux":
        yield from child.run(list(jobs), time_limit)
        return
    try:
        counter = counting.Counter()
    except simt.NoCompiler as e:
        raise Unavailable(str(e)) from None
    traced = [functools.partial(_traced, counter, number, job) for number, job in enumerate(jobs)]
    results = child.fork(traced, time_limit)
    try:
        for result in results:
            counter.only_totals()
            yield result if isinstance(result, str) else _with_counts(result, counter, child.PATIENCE * time_limit)
    finally:
        results.close()
        counter.close()


def _traced(counter: counting.Counter, number: int, job: Callable[[], dict]) -> dict:
    """In the child: one job, whose launches write to the counter."""
    global _trace
    if number == 0:
        counter.only_trace()
        _trace = counter.trace
    result = job()
    counting.end_case(counter.trace, number)
    return result


def _with_counts(result: dict, counter: counting.Counter, seconds: float) -> dict:
    """What a child reported of a case, with the counts that it cannot have written."""
    try:
        case = counter.case(seconds)
    except counting.NotCounted as e:
        problem = Problem("died", f"the record of what the kernels read and wrote is not whole: {e}")
        return {**result, "problem": vars(problem), "counts": {}, "launches": 0}
    totals = Counter({k: v for k, v in case.total.to_json().items() if v})
    counts = _counts(totals, case.launches) | {"shared_bytes": case.shared_bytes}
    return {**result, "counts": counts, "launches": case.launches}


def outcome(payload: dict) -> Outcome:
    """What `one_case` returned, as JSON."""
    problem = Problem(**payload["problem"]) if payload["problem"] else None
    return Outcome(**{**payload, "findings": [LaunchFinding(**f) for f in payload["findings"]], "problem": problem})


def one_case(fn: Callable, run: Run, time_limit: float) -> dict[str, Any]:
    """Runs in the child: one case, every launch checked."""
    return case_by_launch(fn, run, time_limit)[0]


def case_by_launch(fn: Callable, run: Run, time_limit: float) -> tuple[dict[str, Any], list[Launched]]:
    """`one_case`, and what each launch did."""
    global _session
    arrays, lengths = {}, {}
    for b in run.buffers.values():
        inside = b.inside().numpy().astype(np.uint8).tobytes()
        size = b.storage.element_size()
        arrays[b.name] = simt.MemoryRange(b.storage.data_ptr(), b.storage.numel(), size, inside, b.start)
        lengths[b.name] = b.view.numel()
    _session = session = _Session(arrays, lengths, time_limit=own_limit(time_limit), order=launch_order(run))
    begin = time.perf_counter()
    attempt = child.attempt(fn, run.arguments)
    _session = None
    problem = attempt.problem
    stopped = problem is not None and problem.message.startswith("KernelStopped")
    fatal = next((f for f in session.findings if f.kind in FATAL), None)
    if fatal is not None:
        problem = Problem(FATAL[fatal.kind], fatal.message, fatal.line)
    elif stopped:
        problem = None  # the finding that stopped it says more
    payload = {
        "problem": vars(problem) if problem else None,
        "launches": session.launches,
        "findings": [vars(f) for f in session.findings],
        "counts": _counts(session.counts, session.launches) | {"shared_bytes": session.shared_bytes},
        "returned": "" if attempt.returned is None else type(attempt.returned).__name__,
        "printed": attempt.printed + "".join(session.printed),
        "seconds": time.perf_counter() - begin,
        "stopped": stopped,
    }
    return payload, session.launched


def traced_case(fn: Callable, run: Run, time_limit: float, trace: int) -> list[Launched]:
    """In a child of its own: one case whose launches write their requests to the file descriptor `trace`. What they
    would count themselves is missing."""
    global _trace
    _trace = trace
    return case_by_launch(fn, run, time_limit)[1]


def _counts(counts: Counter, launches: int) -> dict[str, int]:
    """The emulator's totals, with the names that all backends share for bytes."""
    return dict(counts) | {
        "launches": launches,
        "load_bytes": counts["global_load_bytes"]
        + counts["tma_load_bytes"]
        + counts["global_atomic_bytes"]
        - counts["global_reduction_bytes"],
        "store_bytes": counts["global_store_bytes"] + counts["global_atomic_bytes"] + counts["tma_store_bytes"],
    }
