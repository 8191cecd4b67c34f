"""Triton's interpreter as a backend: the kernel runs on the CPU in a child process and every address is seen."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from .. import support
from ..spec.inputs import Run, shared_bytes
from . import TIME_LIMIT, Outcome, Problem, child, launch_order, offline
from .access import AccessFinding, Recorder
from .compiler import TARGETS
from .hooks import interpreting, recording


class Unavailable(support.Missing):
    """Triton cannot be used here; the message says what to do."""


def environment() -> dict[str, str]:
    """For a process that records accesses: no GPU, the interpreter on, and this labutils to import."""
    paths = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "TRITON_INTERPRET": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": os.pathsep.join(p for p in paths if p),
    }


def ready() -> bool:
    """Is Triton here, with its interpreter on?"""
    try:
        require()
    except Unavailable:
        return False
    return True


def require() -> None:
    """Raise Unavailable, saying what to do, unless Triton is here with its interpreter on and working."""
    try:
        import triton  # noqa: F401
    except ImportError:
        raise Unavailable(
            "Triton is not installed here. On Linux: pip install triton==3.7.1. There are wheels for Linux only: "
            "elsewhere use Colab, a Linux machine, or WSL on Windows. Exercises in plain Python work without it."
        ) from None
    if too_old := support.problem("triton"):
        raise Unavailable(f"{too_old}.")
    if not interpreting():
        raise Unavailable(
            "triton was imported before labutils, so its interpreter is switched off. Restart the notebook's kernel "
            "(Kernel → Restart) and run `import labutils as lab` before `import triton`."
        )
    self_test()


@functools.cache
def self_test() -> None:
    """Older interpreters returned zeros without a word: try masks, `dot`, bf16 and atomics once. About 20 ms."""
    from . import interpreter_patches, selftest

    interpreter_patches.patch()
    for name, yours, expected in selftest.results():
        if not torch.equal(yours, expected):
            import triton

            raise Unavailable(
                f"The interpreter of Triton {triton.__version__} gives wrong results here ({name}). "
                "Install the version that the course pins: pip install triton==3.7.1"
            )


class Interpreter:
    """The backend of a machine without a GPU. What is launched is compiled for each of `targets` too."""

    name = "interpreter"
    device = "cpu"
    can = frozenset({"record"})

    def __init__(self, targets: Sequence[int] = TARGETS):
        self._targets = tuple(targets)
        self._compiled: dict[str, Problem | None] = {}
        self._launches: dict[str, dict] = {}
        self._refusals: list[str] = []
        self._compiler: offline.Compiler | None = None

    def describe(self) -> str:
        return "Triton's interpreter on the CPU; compiled for " + ", ".join(f"sm_{t}" for t in self._targets)

    def broken(self) -> None:
        return None  # each run has a process of its own

    def allocate(self, count: int) -> torch.Tensor:
        return shared_bytes(count)

    def run(self, fn: Callable, runs: Sequence[Run], time_limit: float = TIME_LIMIT) -> Iterator[Outcome]:
        require()
        self._launches, self._refusals = {}, []
        jobs = [functools.partial(one_case, fn, run) for run in runs]
        for result in child.fork(jobs, time_limit):
            if isinstance(result, str):
                yield Outcome(child.end(result), seconds=time_limit)
                return
            launches = result.pop("compile")
            if not (result["problem"] and result["problem"]["kind"] == "unfilled"):  # a stub need not be compiled
                for spec in launches:
                    self._keep(spec)
            yield outcome(result)

    def _keep(self, spec: dict | str) -> None:
        """Remember a launch for the compiler: one of those that differ in alignment only, the best aligned."""
        if not self._targets:
            return
        if isinstance(spec, str):
            self._refusals.append(spec)
            return
        key = offline.but_for_alignment(spec)
        (self._launches[key],) = offline.best_aligned([*filter(None, [self._launches.get(key)]), spec])
        if key not in self._compiled and self._compiler is None:
            self._compiler = offline.Compiler(self._targets)  # it starts while the other cases run

    def compile_problem(self, fn: Callable) -> Problem | None:
        """What the compiler says about every distinct launch of the last `run`, for each target."""
        compiler, self._compiler = self._compiler, None
        try:
            new = [k for k in self._launches if k not in self._compiled]
            if new:
                found = compiler.problems([self._launches[k] for k in new])
                self._compiled.update(zip(new, found, strict=True))
        finally:
            if compiler is not None:
                compiler.close()
        if self._refusals:
            raise offline.CompilerFailed(self._refusals[0])
        return next((self._compiled[k] for k in self._launches if self._compiled[k]), None)


def outcome(payload: dict) -> Outcome:
    """What `one_case` returned, as JSON, without what is to be compiled."""
    findings = [AccessFinding(**{**f, "program": tuple(f["program"])}) for f in payload["findings"]]
    problem = Problem(**payload["problem"]) if payload["problem"] else None
    return Outcome(**{**payload, "findings": findings, "problem": problem})


def one_case(
    fn: Callable,
    run: Run,
    compiled: bool = True,
    recorder: Recorder | None = None,
    on_launch: Callable = lambda *launch: None,
) -> dict:
    """Runs in the child: one case, recorded. `compiled`: with what a compiler needs of each launch.

    `on_launch(function, args, kwargs)` is called before each one."""
    recorder, specs = recorder or Recorder(), []
    for b in run.buffers.values():
        recorder.track(b.name, b.storage.data_ptr(), b.storage.element_size(), b.inside().numpy(), b.start)
        if b.apart > 1:
            recorder.spread(b.name, b.view.data_ptr(), b.view.stride(0) * b.view.element_size(), b.apart)

    def note(*launch) -> None:
        on_launch(*launch)
        if compiled:
            _note(specs, *launch)

    with np.errstate(all="ignore"), recording(recorder, note, launch_order(run)):
        attempt = child.attempt(fn, run.arguments)
    problem, returned, done = attempt.problem, attempt.returned, recorder.counts.programs
    if problem and problem.kind == "timeout" and recorder.grid > 1:
        problem.message += f"; {done} of {recorder.grid} programs were begun"
    return {
        "problem": vars(problem) if problem else None,
        "launches": recorder.counts.launches,
        "findings": [vars(f) for f in recorder.findings],
        "counts": recorder.counts.to_json(),
        "returned": "" if returned is None else type(returned).__name__,
        "printed": attempt.printed,
        "seconds": attempt.seconds,
        "compile": specs,
    }


def _note(specs: list[dict | str], kernel, args, kwargs) -> None:
    """Keep what is needed to compile this launch elsewhere, once per distinct signature; or why it cannot be."""
    try:
        spec = offline.launch_spec(kernel, args, kwargs)
    except offline.NotExtractable as e:
        spec = str(e)
    if spec not in specs:
        specs.append(spec)
