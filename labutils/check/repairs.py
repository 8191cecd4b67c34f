"""Where is the mistake? Small changes of the kernel are tried: if one makes it right, the mistake is in that place.

Only the place is reported, not the change. A change counts if the kernel then passes the cases that are small, both
those that were refused and those that it passed before.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..backends import Outcome, child, extract, interpreter
from ..spec.inputs import Run
from . import diagnose, edits, statements
from .compare import Comparison, OutputComparison, mismatches
from .findings import Evidence

EACH = 1.0
"""Seconds that a changed kernel may take."""

ALL = 3.0
"""Seconds that a changed kernel which is right in the first cases may take for all the others together."""

MOST = 400
"""Changes that are tried at most, the likeliest first."""


WHOLE = ("the mask", "the neutral value of masked lanes", "the accumulator")
"""What is shown with its whole statement: it may be missing."""


@dataclass(frozen=True)
class Place:
    """A part of a kernel's text that a change makes right: what it is, and where."""

    what: str
    text: str
    line: int
    statement: str

    def evidence(self, before: str) -> Evidence:
        """`before` is what has been reported already: a line in it is not named again."""
        if f"line {self.line}" in before:
            return Evidence("", f"One change of {self.what} on line {self.line} makes the kernel right.")
        shown = statements.shortened(self.statement if self.what in WHOLE else self.text, 80)
        return Evidence(
            f"one change on line {self.line} makes the kernel right, `{statements.shortened(self.statement)}`",
            f"Look at line {self.line}, first at {self.what}, `{shown}`. If that is as it should be, look at the rest "
            "of the line and at what uses it.",
        )


def find(fn: Callable, first: list[Run], rest: list[Run], lines: set[int], seconds: float) -> Place | None:
    """The first place where one small change makes the kernel right; None where there is none, or no time.

    Each change is tried in the cases `first`, and one that is right there in the `rest` too. `lines` are tried first.
    The runs' buffers are overwritten.
    """
    end = time.monotonic() + seconds
    try:
        parts = extract.module_parts(fn)
    except extract.NotExtractable:
        return None
    tries = sorted(_tries(parts), key=lambda t: parts[t[0]].line + t[1].line - 1 not in lines)[:MOST]
    runs, others = ([(run, [*wanted(run)]) for run in some] for some in (first, rest))
    jobs = [functools.partial(_right, fn.__name__, parts, *t, runs) for t in tries]
    at = 0
    while (found := edits.first_right(jobs[at:], EACH, end)) is not None:
        at += found
        if edits.first_right([functools.partial(_right, fn.__name__, parts, *tries[at], others)], ALL, end) == 0:
            place, end = _place(parts, *tries[at]), min(end, time.monotonic() + EACH)
            return _whole_line(fn.__name__, parts, place, tries[at], tries[at + 1 :], runs, end)
        at += 1
    return None


def _whole_line(entry: str, parts, place: Place, first, left, runs, end: float) -> Place:
    """The place, without a part of it where another part of the same line, apart from it, could be changed as well."""
    number, change = first
    others = [
        t for t in left
        if t[0] == number and t[1].line == change.line and (t[1].begin >= change.end or t[1].end <= change.begin)
    ]  # fmt: skip
    results = child.run([functools.partial(_right, entry, parts, *t, runs) for t in others], EACH)
    for result in results:
        if isinstance(result, str) or time.monotonic() > end:
            break
        if result["right"]:
            results.close()
            return replace(place, what="each part", text=place.statement)
    results.close()
    return place


def _tries(parts: list[extract.Part]) -> list[tuple[int, edits.Change]]:
    """Changes of every kernel among the parts: (number of the part, change), in turns by kind of change."""
    found = []
    for number, part in enumerate(parts):
        if "triton.jit" in part.text and "def " in part.text:
            try:
                found.append([(number, c) for c in edits.changes(part.text)])
            except (SyntaxError, StopIteration):
                continue
    return [t for each in found for t in each]


def wanted(run: Run) -> Iterator[OutputComparison]:
    """What a run's outputs are compared with."""
    comparison = Comparison(run)
    return (comparison.output(name) for name in run.outputs)


def _right(entry: str, parts: list[extract.Part], number: int, change: edits.Change, runs) -> dict:
    """In the child: is the changed kernel right in these runs, each with what it wants of the outputs?"""
    part = parts[number]
    changed = [*parts]
    changed[number] = part._replace(text=change.applied(part.text), file=f"<changed {part.file}>")
    try:
        fn = extract.load(changed, "changed")[entry]
    except Exception:  # a change that is no Python is no repair
        return {"right": False}
    for run, wanted in runs:
        for b in run.buffers.values():
            b.reset()
        result = interpreter.one_case(fn, run, compiled=False)
        result.pop("compile")
        if not is_right(run, wanted, result, interpreter.outcome):
            return {"right": False}
    return {"right": True}


def is_right(run: Run, wanted: list[OutputComparison], result: dict, outcome: Callable[[dict], Outcome]) -> bool:
    """Is nothing wrong in a run that a backend's child has reported?"""
    if result["problem"] or result["findings"] or any(map(_differs, wanted)):
        return False
    return diagnose.examine(run, outcome(result)).diagnosis is None


def _differs(wanted: OutputComparison) -> bool:
    got = wanted.buffer.view.double()
    return bool(mismatches(got, wanted.expected, wanted.limit, wanted.rounded(wanted.expected)).any())


def _place(parts: list[extract.Part], number: int, change: edits.Change) -> Place:
    part = parts[number]
    lines = part.text.splitlines()
    statement = statements.statement(lines, change.line)
    begin = len(SIGN.sub("", part.text[: change.begin]))
    neutral = re.search(r"\bother\s*=\s*$", part.text[:begin])
    what = "the neutral value of masked lanes" if neutral else change.what
    return Place(what, part.text[begin : change.end], part.line + change.line - 1, statement)


SIGN = re.compile(r"(?<=[(\[,=:])-\s*$|(?<=[(\[,=:] )-\s*$")
"""A minus in front of a part, which belongs to it."""
