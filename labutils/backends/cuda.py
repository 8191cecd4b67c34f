"""The backend of a machine with a CUDA GPU: kernels run there, in the notebook's own process.

A GPU records no addresses, so what an interpreter sees (reads outside an array, races that happened not to matter) is
looked for by a sidecar process that runs the same cases with every access recorded, before they are launched here.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

import torch

from ..spec.inputs import Run
from . import TIME_LIMIT, Outcome, Problem, child, errors

RESTART = "restart the notebook's kernel (Kernel → Restart)"


class Cuda:
    """Runs each case twice on the GPU and compares the bits: a difference is a race, unless any order is allowed."""

    name = "cuda"
    device = "cuda"
    can = frozenset({"time"})

    def __init__(self):
        self._broken: str | None = None

    def describe(self) -> str:
        return torch.cuda.get_device_name()

    def broken(self) -> Problem | None:
        return Problem("died", self._broken) if self._broken else None

    def allocate(self, count: int) -> torch.Tensor:
        return torch.empty(count, dtype=torch.uint8)

    def run(self, fn: Callable, runs: Sequence[Run], time_limit: float = TIME_LIMIT) -> Iterator[Outcome]:
        for run in runs:
            if self._broken:
                yield Outcome(self.broken())
                return
            yield self._one(fn, run, time_limit)

    def _one(self, fn, run: Run, time_limit: float) -> Outcome:
        out, printed, begin = Outcome(), child.Printed(), time.perf_counter()
        try:
            with (
                contextlib.redirect_stdout(printed),
                contextlib.redirect_stderr(printed),
                child.alarm(time_limit),
                _counting_launches() as launches,
            ):
                returned = fn(*run.arguments)
                _wait(time_limit)
                first = {name: b.storage.clone() for name, b in run.outputs.items()}
                for b in run.buffers.values():
                    if b.is_output:
                        b.reset()
                fn(*run.arguments)
                _wait(time_limit)
            out.launches = len(launches) // 2
            out.returned = "" if returned is None else type(returned).__name__
            if run.case.exact or not run.exercise.contract.any_order:
                outputs = run.outputs
                out.earlier = {n: f for n, f in first.items() if (outputs[n].bits(f) != outputs[n].bits()).any()}
        except _Stuck:
            self._broken = f"an earlier kernel never ended and still holds the GPU: {RESTART}"
            out.problem = Problem(
                "timeout",
                f"the kernel did not end within {time_limit:.0f} s; {RESTART} to get the GPU back",
            )
        except (Exception, errors.TimeLimit, SystemExit) as e:
            out.problem = self._explain(e)
        out.printed, out.seconds = printed.getvalue(), time.perf_counter() - begin
        return out

    def _explain(self, error: BaseException) -> Problem:
        text = str(error)
        if "CUDA error" in text and "out of memory" not in text:
            self._broken = f"an earlier kernel crashed the GPU context: {RESTART}"
            what = text.split("CUDA error:")[1].splitlines()[0].strip()
            return Problem(
                "died",
                f"the GPU stopped the kernel: {what}; {RESTART}",
            )
        return errors.explain(error)

    def compile_problem(self, fn: Callable) -> Problem | None:
        """Whatever ran here was compiled for this GPU."""
        return None


class _Stuck(Exception):
    """The GPU did not finish in time."""


def _wait(limit: float) -> None:
    """Like synchronize, but gives up: a kernel that never ends cannot be interrupted, only left behind."""
    done, begin = torch.cuda.Event(), time.perf_counter()
    done.record()
    while not done.query():
        if time.perf_counter() - begin > limit:
            raise _Stuck
        time.sleep(0.0002)


@contextlib.contextmanager
def _counting_launches():
    """A list that grows by one with every launch of a Triton or CUDA C++ kernel."""
    from triton import knobs

    from .. import cuda

    launches: list[None] = []

    def hook(*_):
        launches.append(None)

    knobs.runtime.launch_enter_hook.add(hook)
    cuda.launch_hooks.append(hook)
    try:
        yield launches
    finally:
        cuda.launch_hooks.remove(hook)
        knobs.runtime.launch_enter_hook.remove(hook)
