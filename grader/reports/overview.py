"""What the class report counts, found in one pass: a large class's students are unpacked one at a time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from grader.marks.results import ClassResults, Graded, Outcome
from grader.reports import charts, feedback

MOST_POINTS = 2000
"""Kernels on the roofline."""


@dataclass
class OfCheck:
    """One exercise: how many solved it, why the others did not, and the times or the traffic of those who did."""

    count: int = 0
    solved: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)
    traffic: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Open:
    """Points that are neither earned nor lost before a GPU judges the answer."""

    student: str
    cell: str
    name: str
    open: float
    points: float
    sentence: str


@dataclass
class Overview:
    """Of a whole class."""

    checks: dict[str, OfCheck]
    shares: list[float] = field(default_factory=list)
    scores: float = 0.0
    roofline: list[charts.Point] = field(default_factory=list)
    open: list[Open] = field(default_factory=list)
    repaired: int = 0
    problems: int = 0

    @property
    def timed(self) -> dict[str, list[float]]:
        """Times by exercise, or where nothing was timed the traffic; empty without either."""
        found = {cell: one.times for cell, one in self.checks.items()}
        if not self.is_timed:
            found = {cell: one.traffic for cell, one in self.checks.items()}
        return found if any(found.values()) else {}

    @property
    def is_timed(self) -> bool:
        return any(one.times for one in self.checks.values())


def of(results: ClassResults) -> Overview:
    """Look at every student once."""
    found = Overview({check.cell: OfCheck() for check in results.checks})
    for student in results.students:
        score = student.score
        found.shares.append(score / (results.points or 1))
        found.scores += score
        found.repaired += bool(student.repairs)
        found.problems += bool(student.problem)
        for outcome in student.outcomes:
            _add(found, student, outcome)
    return found


def _add(found: Overview, student: Graded, o: Outcome) -> None:
    if o.open:
        found.open.append(Open(student.student, o.cell, o.name, o.open, o.points, o.sentence))
    check = found.checks.get(o.cell)
    if check is not None:
        check.count += 1
        check.solved += o.passed
        check.kinds.update([o.kind] * bool(o.kind))
    if not (o.verdict and o.verdict.passed):
        return
    if check is not None and o.verdict.timing:
        check.times.append(o.verdict.timing["ratio"])
    elif check is not None and (moved := feedback.traffic(o.verdict)) is not None:
        check.traffic.append(moved)
    if len(found.roofline) < MOST_POINTS and (p := charts.point_of(f"{student.student}: {o.name}", o.verdict)):
        found.roofline.append(p)
