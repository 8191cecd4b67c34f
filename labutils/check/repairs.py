"""Where is the mistake? Small changes of the kernel are tried: if one makes it right, the mistake is in that place.

Only the place is reported, not the change. A change counts if the kernel then passes the cases that are small, both
those that were refused and those that it passed before.
"""

from __future__ import annotations

import ast
import functools
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..backends import child, extract, interpreter
from ..spec.inputs import Run
from . import diagnose, edits, statements
from .compare import Comparison, OutputComparison, mismatches
from .findings import Evidence

EACH = 1.0
"""Seconds that a changed kernel may take."""

ALL = 3.0
"""Seconds that a changed kernel which is right in the first cases may take for all the others together."""

MOST = 2000
"""Changes that are tried at most, the likeliest first."""

FAR = 4
"""Steps from a line that has been named to the lines that compute what it uses, beyond which all are alike."""


def _is_whole(what: str) -> bool:
    """Is this shown with its whole statement, because it may be missing?"""
    return what in ("the mask", "the neutral value of masked lanes", "the accumulator") or "missing" in what


@dataclass(frozen=True)
class Place:
    """A part of a kernel's text that a change makes right: what it is, and where."""

    what: str
    text: str
    line: int
    statement: str

    @property
    def is_condition(self) -> bool:
        """Is it a mask, or a part of one?"""
        return self.what in ("the mask", "the comparison", "each part") or "mask" in self.statement.split("=")[0]

    @property
    def sentence(self) -> str:
        """What is known, for an advice that says something else."""
        shown = statements.shortened(self.statement)
        return f"One change of {self.what} in your line {self.line}, `{shown}`, makes the kernel right."

    @property
    def look(self) -> str:
        """What to try."""
        shown = statements.shortened(self.statement if _is_whole(self.what) or not self.text else self.text, 80)
        return (
            f"Look at line {self.line}, first at {self.what}, `{shown}`. If that is as it should be, look at the rest "
            "of the line and at what uses it."
        )

    def evidence(self, before: str) -> Evidence:
        """`before` is what has been reported already: a line in it is not named again."""
        if f"line {self.line}" in before:
            return Evidence("", self.sentence)
        shown = statements.shortened(self.statement)
        return Evidence(f"one change of your line {self.line}, `{shown}`, makes the kernel right", self.look)


def find(
    fn: Callable, first: list[Run], rest: list[Run], lines: set[int], seconds: float, formula: bool | None = None
) -> Place | None:
    """The first place where one small change makes the kernel right; None where there is none, or no time.

    Each change is tried in the cases `first`, and one that is right there in the `rest` too. What is likely is tried
    first: common mistakes, those on `lines` or near to them, those that take in a name which is used nowhere, and those
    in a `formula`, or if that is False, in what is loaded and stored. The runs' buffers are overwritten.
    """
    end = time.monotonic() + seconds
    try:
        parts = extract.module_parts(fn)
    except extract.NotExtractable:
        return None

    distances = _distances(parts, lines)
    unused = [rf"\b({'|'.join(n for n, _ in edits.unused(p.text)) or '(?!)'})\b" for p in parts]

    def unlikely(t: tuple[int, edits.Change]) -> float:
        number, change = t
        far = min(distances.get((number, parts[number].line + change.line - 1), FAR), FAR) if lines else 0
        other_kind = None not in (formula, change.formula) and change.formula != formula
        takes_in = re.search(unused[number], change.new) is not None
        return change.group + 1.5 * far + 3 * other_kind - 3 * takes_in

    tries = sorted(_tries(parts), key=unlikely)[:MOST]
    runs, others = ([(run, [*_wanted(run)]) for run in some] for some in (first, rest))
    changed, elsewhere, everywhere = (Changed(fn.__name__, parts, some) for some in (runs, others, runs + others))
    jobs = [functools.partial(changed.right, *t) for t in tries]
    at = 0
    while (found := edits.first_right(jobs[at:], EACH, end)) is not None:
        at += found
        if edits.first_right([functools.partial(elsewhere.right, *tries[at])], ALL, end) == 0:
            place, end = _place(parts, *tries[at]), min(end, time.monotonic() + EACH)
            return _whole_line(everywhere, place, tries[at], tries[at + 1 :], end)
        at += 1
    return None


def unused(fn: Callable) -> list[str]:
    """What the kernels of a function bind and use nowhere, each in a few words."""
    try:
        parts = extract.module_parts(fn)
    except extract.NotExtractable:
        return []
    found = []
    for part in parts:
        if "triton.jit" in part.text and "def " in part.text:
            lines = part.text.splitlines()
            for name, line in edits.unused(part.text):
                at = statements.Line(part.line + line - 1, lines[line - 1])
                found.append(f"`{name}` ({at})" if line else f"the parameter `{name}`")
    return found


def _whole_line(changed: Changed, place: Place, first, left, end: float) -> Place:
    """The place, without a part of it where another part of the same line, apart from it, could be changed as well."""
    number, change = first
    others = [
        t for t in left
        if t[0] == number and t[1].line == change.line and (t[1].begin >= change.end or t[1].end <= change.begin)
    ]  # fmt: skip
    results = child.run([functools.partial(changed.right, *t) for t in others], EACH)
    for result in results:
        if isinstance(result, str) or time.monotonic() > end:
            break
        if result["right"]:
            results.close()
            return replace(place, what="each part", text=place.statement)
    results.close()
    return place


def _distances(parts: list[extract.Part], lines: set[int]) -> dict[tuple[int, int], int]:
    """How far a line, given as (number of the part, line), is from `lines`: 1 if it computes what they use or is in a
    function that they call, 2 if it computes what such a line uses, and so on. Lines without an entry have no part in
    them."""
    found = [(number, *s) for number, part in enumerate(parts) for s in _statements(part)]
    defined = {m[1]: n for n, part in enumerate(parts) if (m := re.search(r"^def (\w+)", part.text, re.MULTILINE))}
    distances = {(n, k): 0 for n, at, _, _ in found if at & lines for k in at}
    distance = 0
    while any(d == distance for d in distances.values()):
        wanted, called = set(), set()
        for n, at, _, used in found:
            if any(distances.get((n, k)) == distance for k in at):
                wanted |= {(n, name) for name in used}
                called |= {defined[name] for name in used & defined.keys()}
        distance += 1
        for n, at, bound, _ in found:
            if n in called or any((n, name) in wanted for name in bound):
                for k in at:
                    distances.setdefault((n, k), distance)
    return distances


def _statements(part: extract.Part) -> Iterator[tuple[set[int], set[str], set[str]]]:
    """The statements of a function: their lines, the names that they bind, and the names that are in them. Of loops and
    branches the head."""
    if "def " not in part.text:
        return
    try:
        tree = ast.parse(part.text)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt) or isinstance(node, ast.FunctionDef):
            continue
        is_head = hasattr(node, "body")
        tops = [getattr(node, f) for f in ("target", "iter", "test") if hasattr(node, f)] if is_head else [node]
        inside = [n for top in tops for n in ast.walk(top) if isinstance(n, ast.Name)]
        bound = {n.id for n in inside if isinstance(n.ctx, ast.Store)}
        last = node.lineno if is_head else node.end_lineno
        yield {part.line + k - 1 for k in range(node.lineno, last + 1)}, bound, {n.id for n in inside}


def _tries(parts: list[extract.Part]) -> list[tuple[int, edits.Change]]:
    """Changes of every kernel among the parts: (number of the part, change). None of launchers: with other arguments or
    other sizes of tiles and grids a wrong kernel may never come to its mistake."""
    found = []
    for number, part in enumerate(parts):
        if "triton.jit" in part.text and "def " in part.text:
            try:
                found += [(number, c) for c in edits.changes(part.text)]
            except (SyntaxError, StopIteration):
                continue
    return found


def _wanted(run: Run) -> Iterator[OutputComparison]:
    """What a run's outputs are compared with."""
    comparison = Comparison(run)
    return (comparison.output(name) for name in run.outputs)


class Changed:
    """A learner's function whose parts are changed one at a time, and runs, each with what it wants of the outputs."""

    def __init__(self, entry: str, parts: list[extract.Part], runs: list[tuple[Run, list[OutputComparison]]]):
        self._entry, self._parts, self._runs = entry, parts, runs
        self._module: dict | None = None

    def right(self, number: int, change: edits.Change) -> dict:
        """In the child: is the function right in all runs with this change of a part?"""
        if self._module is None:  # loaded once, in the child
            self._module = extract.load(self._parts, "changed")
        part, before = self._parts[number], dict(self._module)
        try:
            extract.define(part._replace(text=change.applied(part.text), file=f"<changed {part.file}>"), self._module)
            return {"right": all(self._passes(*run) for run in self._runs)}
        except Exception:  # a change that is no Python is no repair
            return {"right": False}
        finally:
            self._module.update(before)

    def _passes(self, run: Run, wanted: list[OutputComparison]) -> bool:
        for b in run.buffers.values():
            b.reset()
        result = interpreter.one_case(self._module[self._entry], run, compiled=False)
        result.pop("compile")
        if result["problem"] or result["findings"] or any(map(_differs, wanted)):
            return False
        return diagnose.examine(run, interpreter.outcome(result)).diagnosis is None


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
