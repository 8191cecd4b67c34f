"""What an instructor does after grading: the exercises to go through again, the people to talk to, what is left."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from grader.intake.roster import NOTHING
from grader.marks.results import Check, ClassResults, Graded, Outcome

MOST_EXERCISES, MOST_EXAMPLES = 3, 2


@dataclass(frozen=True)
class Failed:
    """An exercise that many did not solve: how many of those who tried, the commonest cause, and who shows it."""

    check: Check
    failed: int
    tried: int
    kind: str
    of_kind: int
    examples: list[tuple[str, str]]


def most_failed(results: ClassResults) -> list[Failed]:
    """The exercises that most of those who tried did not solve. What nobody wrote is not tried, and what needs a GPU is
    not failed."""
    counts = {check.cell: _Count() for check in results.checks}
    for student in results.students:
        for o in () if student.problem else student.outcomes:
            if o.cell in counts and o.kind not in ("unfilled", "open") and not o.open:
                counts[o.cell].add(student.student, o)
    found = []
    for check in results.checks:
        if (count := counts[check.cell]).kinds:
            kind, of_kind = count.kinds.most_common(1)[0]
            examples = count.examples[kind]
            found.append(Failed(check, count.kinds.total(), count.tried, kind, of_kind, examples))
    return sorted(found, key=lambda f: (-f.failed / f.tried, -f.failed))[:MOST_EXERCISES]


@dataclass
class _Count:
    """Of one exercise: who tried, and why not all of them solved it."""

    tried: int = 0
    kinds: Counter = field(default_factory=Counter)
    examples: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def add(self, student: str, outcome: Outcome) -> None:
        self.tried += 1
        if not outcome.passed:
            self.kinds[outcome.kind] += 1
            if len(examples := self.examples.setdefault(outcome.kind, [])) < MOST_EXAMPLES:
                examples.append((student, outcome.sentence))


@dataclass(frozen=True)
class Weak:
    """Someone with less than half of the points."""

    student: str
    marks: float


def need_help(results: ClassResults) -> list[Weak]:
    """Who was graded and has less than half of the points, the weakest first."""
    everyone = ((s, s.marks) for s in results.students if not s.problem)
    weak = [Weak(s.student, marks) for s, marks in everyone if 2 * (marks + s.open) < results.points]
    return sorted(weak, key=lambda s: s.marks)


def absent(results: ClassResults) -> list[Graded]:
    """Who is in the roster and submitted nothing."""
    return [s for s in results.students if s.problem == NOTHING]


def not_graded(results: ClassResults) -> list[Graded]:
    """Whose submission could not be graded."""
    return [s for s in results.students if s.problem and s.problem != NOTHING]


_CELL = re.compile(r"\b([Tt]he) (?:check|answer cell|given cell) '[^']*'")
_NAMED = re.compile(r"'[^']*'|\b\d+\b")


def by_kind(repairs: Iterable[str]) -> list[str]:
    """One sentence for each kind of repair, with how often it was made if more than once."""
    groups: dict[str, list[str]] = {}
    for repair in repairs:
        general = _CELL.sub(lambda m: "A cell" if m[1] == "The" else "a cell", repair)
        groups.setdefault(_NAMED.sub("…", general), []).append(repair)
    return [alike[0] if len(alike) == 1 else f"{len(alike)} ×: {kind}" for kind, alike in groups.items()]
