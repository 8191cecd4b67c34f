"""What each program of one small run touches and on which line: recorded once more, after a failure.

Triton's interpreter shows every address. Of CUDA C++ the launches are noted, with the text of the kernels.
"""

from __future__ import annotations

import functools
import linecache
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from .. import cuda
from ..backends import child, emulator, errors, hooks
from ..backends.access import Recorder
from ..spec.inputs import Buffer, Run, shared_bytes

MOST_ELEMENTS = 300_000
"""Elements of all accesses that are kept; a run that touches more is not small."""


@dataclass(frozen=True)
class Access:
    """One load, store or atomic of one program, or a "barrier" where its threads meet. `elements` and `masked` are
    elements of the array's storage, counted from the array's first: those that were touched, and where lanes pointed
    that the mask switched off."""

    kind: str
    array: str
    program: tuple[int, int, int]
    filename: str
    line: int
    elements: tuple[int, ...]
    masked: tuple[int, ...]


@dataclass
class Recording:
    """All accesses of a run, its launches as (grid, block; None in Triton) and the texts of CUDA C++ kernels."""

    accesses: list[Access] = field(default_factory=list)
    launches: list[tuple[tuple[int, ...], tuple[int, ...] | None]] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)

    def of(self, array: str, *kinds: str) -> list[Access]:
        return [a for a in self.accesses if a.array == array and a.kind in kinds]

    def lines(self, filename: str) -> list[str]:
        return linecache.getlines(filename)


class _Watch(Recorder):
    """A recorder that keeps each access with the learner's line."""

    def __init__(self):
        super().__init__()
        self.kept: list[list] = []
        self.room = MOST_ELEMENTS
        self.extent = (0, 0, 0)

    def program(self, place, number):
        super().program(place, number)
        self.extent = tuple(max(n, p + 1) for n, p in zip(self.extent, place, strict=True))

    def load(self, addresses, mask, itemsize, where, *volatile):
        ok = super().load(addresses, mask, itemsize, where, *volatile)
        self._keep("load", addresses, mask)
        return ok

    def store(self, addresses, mask, itemsize, where, changes=None):
        ok = super().store(addresses, mask, itemsize, where, changes)
        self._keep("store", addresses, mask)
        return ok

    def atomic(self, addresses, mask, itemsize, where, *semantics):
        ok = super().atomic(addresses, mask, itemsize, where, *semantics)
        self._keep("atomic", addresses, mask)
        return ok

    def meet(self):
        super().meet()
        self.kept.append(["barrier", "", self._place, *_place(), [], []])

    def _keep(self, kind: str, addresses, mask) -> None:
        filename, line = _place()
        mask = np.broadcast_to(np.asarray(mask, bool), addresses.shape)
        for t in self.arrays:
            here = (addresses >= t.base) & (addresses < t.end)
            if not here.any() or self.room <= 0:
                continue
            number = (addresses.astype(np.int64) - t.base) // t.itemsize - t.start
            touched, off = np.unique(number[here & mask]), np.unique(number[here & ~mask])
            self.room -= touched.size + off.size
            self.kept.append([kind, t.name, self._place, filename, line, touched.tolist(), off.tolist()])


def _place() -> tuple[str, int]:
    """File and line of the innermost learner's frame."""
    frame = sys._getframe(2)
    while frame is not None:
        filename = frame.f_code.co_filename
        if errors.is_learners(filename) and linecache.getline(filename, frame.f_lineno).strip():
            return filename, frame.f_lineno
        frame = frame.f_back
    return "", 0


def record(fn: Callable, run: Run, seconds: float) -> Recording:
    """Call `fn` on a run once more and say what it touched; an empty recording where that fails."""
    job = functools.partial(_cuda_job if run.exercise.language == "cuda" else _triton_job, fn, run)
    result = next(iter(child.run([job], seconds)), "died")
    if isinstance(result, str):
        return Recording()
    accesses = [Access(k, a, tuple(p), f, n, tuple(e), tuple(m)) for k, a, p, f, n, e, m in result["accesses"]]
    launches = [(tuple(g), tuple(b) if b else None) for g, b in result["launches"]]
    return Recording(accesses, launches, result["sources"])


def again(run: Run) -> Run:
    """The run with its buffers as they were before it, in memory of its own: the outputs are still to be shown."""
    buffers = {}
    for name, b in run.buffers.items():
        storage = shared_bytes(b.before.numel() * b.before.element_size()).view(b.before.dtype)
        storage.copy_(b.before)
        view = storage.as_strided(b.view.shape, b.view.stride(), b.start)
        buffers[name] = Buffer(name, storage, view, b.is_output, b.before, b.apart)
    return Run(run.exercise, run.case, buffers, run.numbers)


def _triton_job(fn: Callable, run: Run) -> dict:
    watch, launches = _Watch(), []
    for b in run.buffers.values():
        watch.track(b.name, b.storage.data_ptr(), b.storage.element_size(), b.inside().numpy(), b.start)
    with np.errstate(all="ignore"), hooks.recording(watch):
        child.attempt(fn, run.arguments)
    if any(watch.extent):
        launches.append((watch.extent, None))
    return {"accesses": watch.kept, "launches": launches, "sources": []}


def _cuda_job(fn: Callable, run: Run) -> dict:
    launches, sources = [], []

    def note(kernel, grid, block, shared, arguments):
        launches.append((list(grid), list(block)))
        if kernel.module.source not in sources:
            sources.append(kernel.module.source)
        emulator.launch(kernel, grid, block, shared, arguments)

    with cuda.redirected(note):
        emulator.one_case(fn, run, 5.0)
    return {"accesses": [], "launches": launches, "sources": sources}


def row_major(buffer: Buffer) -> np.ndarray:
    """For each element of a buffer's storage its number in row-major order in the array, -1 outside."""
    numbers = torch.full((buffer.storage.numel(),), -1)
    view = numbers.as_strided(buffer.view.shape, buffer.view.stride(), buffer.start)
    view.copy_(torch.arange(buffer.view.numel()).reshape(buffer.view.shape))
    return numbers.numpy()


def numbers(buffer: Buffer, elements) -> list[int]:
    """Row-major numbers of elements counted from the array's first in its storage; those outside are left out."""
    table = row_major(buffer)
    places = np.asarray(elements, np.int64) + buffer.start
    places = places[(places >= 0) & (places < table.size)]
    found = table[places]
    return sorted(set(found[found >= 0].tolist()))
