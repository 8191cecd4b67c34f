"""Backends: the one way to run a kernel. A backend runs launchers on prepared buffers and says what happened.

`pick()` gives the backend of this machine: `cuda` on a GPU, else `interpreter` for Triton and `emulator` for CUDA C++.
Nothing else in labutils asks which machine it is on; what a backend cannot do it says in `can`.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

    from ..spec.inputs import Run
    from .access import AccessFinding

TIME_LIMIT = 10.0
"""Seconds that one case may take before it counts as endless; an honest one needs about one."""


@dataclass
class Problem:
    """An error a learner's code caused. `kind` is "unfilled", "error", "timeout", "died" or "does-not-compile"; or
    "needs-gpu": no mistake, but code that this machine cannot run."""

    kind: str
    message: str
    line: int | None = None
    source: str = ""


@dataclass
class Outcome:
    """What happened in one run. `stopped`: a finding ended it early, so that what the outputs hold says nothing.
    `earlier`: storage by output of an earlier run on the same input that left other bits."""

    problem: Problem | None = None
    launches: int | None = None
    findings: list[AccessFinding] = field(default_factory=list)
    counts: dict[str, Any] = field(default_factory=dict)
    returned: str = ""
    printed: str = ""
    seconds: float = 0.0
    unstable: bool = False
    earlier: dict[str, torch.Tensor] = field(default_factory=dict)
    stopped: bool = False


class Backend(Protocol):
    """A machine that runs kernels. `can` holds "time" and "record" as far as they are true of it."""

    name: str
    device: str
    can: frozenset[str]

    def describe(self) -> str:
        """One line for the head of a report."""
        ...

    def broken(self) -> Problem | None:
        """Why nothing can run here any more: what an earlier kernel left behind. None as long as all is well."""
        ...

    def allocate(self, count: int) -> Any:
        """`count` bytes on the CPU in which a run's storage is drawn."""
        ...

    def run(self, fn: Callable, runs: Sequence[Run], time_limit: float = TIME_LIMIT) -> Iterator[Outcome]:
        """Call `fn(*run.arguments)` for each run in turn; one outcome each, fewer if the process died."""
        ...

    def compile_problem(self, fn: Callable) -> Problem | None:
        """After `run`: why a GPU's compiler would refuse what was launched, or None."""
        ...


@functools.cache
def pick(language: str = "triton", only: int | None = None) -> Backend:
    """The backend of this machine for "triton" or "cuda"; for kernels that run on `only` one target (90 for sm_90), or
    any."""
    from ..gpu import device

    if device.runs(only):
        from .cuda import Cuda

        return Cuda()
    if language == "cuda":
        from .emulator import Emulator

        return Emulator(only)
    from .interpreter import Interpreter

    return Interpreter()


def launch_order(run) -> int:
    """A seed for the order in which blocks or programs run, from the bytes of a run's arrays: nobody knows it who does
    not know the inputs, and the same inputs give the same order. Never 0."""
    import torch

    seed = 0
    for b in run.buffers.values():
        storage = b.storage[: 4096 // b.storage.element_size()]
        seed = zlib.crc32(storage.view(torch.uint8).numpy().tobytes(), seed)
    return seed | 1 << 32
