"""Where is the mistake in a CUDA C++ kernel? Small changes of its text are tried: if one makes it right, it is there.

The changes (`cuda_edits`) are compiled hundreds at a time (`choices`), the likeliest first, and each runs in the
emulator: in small refused cases, then in one that passed.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ..backends import emulator, simt
from ..cuda import Kernel
from ..spec.inputs import Run
from . import accesses, choices, cuda_edits, edits, names, repairs, statements
from .compare import OutputComparison
from .edits import Change
from .repairs import Place

AT_ONCE = (150, 300, 450)
"""Changes of the first program, of the second, and of each that follows."""

MOST_PROCESSES = 4

ROUNDS = 4
"""Times that changes which are no C++ are left out of a program."""


def find(fn: Callable, again: list[tuple[Run, float]], lines: set[int], waits: bool, seconds: float) -> Place | None:
    """The first place where one small change makes the kernels right; None where there is none, or no time.

    `again` are the runs that must be right, the first of them those that are not, each with the seconds that a launch
    may take in it. Changes of `lines` are tried earlier. `waits`: a barrier may be missing.
    """
    end = time.monotonic() + seconds
    runs = [[_Wanted(accesses.again(run), limit) for run, limit in again] for _ in range(_processes())]
    longest = sum(2 * limit for _, limit in again) + 1
    for source, kernels in _texts(fn).items():
        for batch in _batches(cuda_edits.changes(source, lines, waits)):
            if time.monotonic() > end:
                return None
            try:
                jobs = _Program(source, kernels, batch, fn, runs).jobs()
            except (simt.CompileError, simt.NeedsGpu, simt.NoCompiler, OSError):
                continue
            at = edits.first_right(jobs, longest, end, len(runs))
            if at is not None:
                return _place(source, batch[at])
    return None


@dataclass
class _Wanted:
    """A run of a process that tries changes, and the seconds that a launch may take in it."""

    run: Run
    limit: float

    @functools.cached_property
    def outputs(self) -> list[OutputComparison]:
        """What the outputs are compared with: found when a change is right in all runs before, and kept."""
        return [*repairs.wanted(self.run)]


def _processes() -> int:
    """Processes that try changes at the same time."""
    return min(MOST_PROCESSES, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)


def near(texts: Iterable[tuple[int, str]], message: str) -> set[int]:
    """The lines that a message names and those that index the arrays which it names, the conditions around them, and
    the lines where the variables of their indices are computed."""
    found = set(map(int, re.findall(r"\bline (\d+)", message)))
    for _, source in texts:
        for array in set(re.findall(r"\b(\w+)\[", message)):
            found |= {x.number for x in statements.uses(source, array)}
        for line in [*found]:
            if here := statements.line_of(source, line):
                found |= {x.number for x in (*statements.conditions(source, line), *statements.made_of(source, here))}
    return found


def _texts(fn: Callable) -> dict[str, list[str]]:
    """The texts that a function's kernels come from, each with the kernels' names."""
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys(names.reached(fn)):
        value = getattr(fn, "__globals__", {}).get(name)
        if isinstance(value, Kernel):
            found.setdefault(value.module.source, []).append(value.name)
    return found


def _batches(changes: list[Change]) -> Iterator[list[Change]]:
    at = 0
    for number in range(len(changes)):
        size = AT_ONCE[min(number, len(AT_ONCE) - 1)]
        if at >= len(changes):
            return
        yield changes[at : at + size]
        at += size


class _Program:
    """Changes of one text, built. Raises CompileError if the compiler takes none of them. `runs`: for each process the
    runs with what is wanted of them, which it overwrites."""

    def __init__(self, source: str, kernels: list[str], changes: list[Change], fn, runs):
        self.fn, self.runs, self.changes = fn, runs, changes
        self.left = dict(enumerate(changes, 1))
        for _ in range(ROUNDS):
            text, self.places = choices.program(source, self.left)
            bad = {number for before in simt.refused(text, kernels) if (number := _last_choice(before))}
            if not bad:
                break
            self.left = {number: c for number, c in self.left.items() if number not in bad}
        self.module = simt.compile_once(text, kernels)
        self.choice, self.place = (self.module.variable(n)[0] for n in (choices.CHOICE, choices.PLACE))
        self.replaced = {(source, name): kernel for name, kernel in self.module.kernels.items()}

    def jobs(self) -> list[Callable[[], dict]]:
        """For each change whether the kernel is right with it; for a child."""
        runs = itertools.cycle(self.runs)
        return [functools.partial(self._right, number, next(runs)) for number in range(1, len(self.changes) + 1)]

    def _right(self, number: int, runs: list[_Wanted]) -> dict:
        if number not in self.left:
            return {"right": False}
        ctypes.c_int.from_address(self.choice).value = number
        ctypes.c_int.from_address(self.place).value = self.places.get(number, 0)
        emulator.replaced.update(self.replaced)
        for w in runs:
            for b in w.run.buffers.values():
                b.reset()
            wanted = w.outputs
            result, _ = emulator.case_by_launch(self.fn, w.run, 2 * w.limit, w.limit)
            if not repairs.is_right(w.run, wanted, result, emulator.outcome):
                return {"right": False}
        return {"right": True}


def _last_choice(text: str) -> int:
    """The number of the last choice of a change in a text; 0 where there is none."""
    last = text.rfind(f"{choices.CHOSEN} == ")
    m = re.match(rf"{choices.CHOSEN} == (\d+)", text[last:]) if last >= 0 else None
    return int(m[1]) if m else 0


def _place(source: str, change: Change) -> Place:
    line = source.splitlines()[change.line - 1].strip()
    return Place(change.what, source[change.begin : change.end] or line, change.line, line)
