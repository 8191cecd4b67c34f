"""What an instructor does after grading: the exercises to go through again, the people to talk to, what is left."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from grader.intake.roster import NOTHING
from grader.marks.results import Check, ClassResults, Graded

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
    found = []
    for check in results.checks:
        tried = [(s, o) for s, o in _outcomes(results, check) if o.kind not in ("unfilled", "open") and not o.open]
        failed = [(s, o) for s, o in tried if not o.passed]
        if not failed:
            continue
        kind, count = Counter(o.kind for _, o in failed).most_common(1)[0]
        examples = [(s.student, o.sentence) for s, o in failed if o.kind == kind][:MOST_EXAMPLES]
        found.append(Failed(check, len(failed), len(tried), kind, count, examples))
    return sorted(found, key=lambda f: (-f.failed / f.tried, -f.failed))[:MOST_EXERCISES]


def _outcomes(results: ClassResults, check: Check):
    graded = (s for s in results.students if not s.problem)
    return [(s, o) for s in graded for o in s.outcomes if o.cell == check.cell]


def need_help(results: ClassResults) -> list[Graded]:
    """Who was graded and has less than half of the points, the weakest first."""
    weak = [s for s in results.students if not s.problem and 2 * (s.marks + s.open) < results.points]
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
