"""What grading a class found, as plain data, and its two exports: JSON with everything, CSV for a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from dataclasses import asdict, dataclass, field

from labutils.verdict import Verdict


@dataclass(frozen=True)
class Check:
    """An exercise as the class report shows it: its name and title, the check cell, the points it is worth."""

    name: str
    title: str
    cell: str
    points: float


@dataclass(frozen=True)
class Outcome:
    """One student's result in one check. `kind` is empty for full marks, else the diagnosis or what stopped it."""

    name: str
    cell: str
    marks: float
    points: float
    kind: str
    sentence: str
    verdict: Verdict | None = None

    @property
    def passed(self) -> bool:
        return self.marks >= self.points


@dataclass
class Graded:
    """One student. With `problem`, the submission could not be graded at all; then every outcome is 0."""

    student: str
    outcomes: list[Outcome] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    problem: str = ""
    manual: float = 0.0
    seconds: float = 0.0

    @property
    def marks(self) -> float:
        return sum(o.marks for o in self.outcomes)

    @property
    def points(self) -> float:
        return sum(o.points for o in self.outcomes)

    def what_happened(self) -> str:
        """The sentences that a reader of the table needs, the gravest first."""
        if self.problem:
            return self.problem
        failed = [o for o in self.outcomes if not o.passed]
        unfilled = [o for o in failed if o.kind == "unfilled"]
        # The first sentence says what was seen; what to try is in the report.
        told = [f"{o.name}: {o.sentence.split('. ')[0].rstrip('.')}." for o in failed if o not in unfilled]
        said = [*self.events, *self.repairs, *told]
        if unfilled:
            said.append(f"{len(unfilled)} of {len(self.outcomes)} exercises not written yet.")
        return " ".join(said) or "All checks passed."


@dataclass
class ClassResults:
    """A graded class. `seed` drew the hidden cases: with it the same run can be made again."""

    unit: str
    title: str
    checks: list[Check]
    students: list[Graded]
    device: str
    seed: int
    when: str
    seconds: float = 0.0
    manual: float = 0.0
    notes: list[str] = field(default_factory=list)

    @property
    def points(self) -> float:
        return sum(c.points for c in self.checks)

    def outcomes_of(self, check: Check) -> list[Outcome]:
        return [o for s in self.students for o in s.outcomes if o.cell == check.cell]

    def common_kinds(self, check: Check) -> list[tuple[str, int]]:
        """Why the check was not passed, the most frequent reason first."""
        return Counter(o.kind for o in self.outcomes_of(check) if o.kind).most_common()

    def as_json(self) -> str:
        data = asdict(self)
        for student, graded in zip(data["students"], self.students, strict=True):
            student.update(marks=graded.marks, points=graded.points, what_happened=graded.what_happened())
        return json.dumps(data, indent=1, ensure_ascii=False) + "\n"

    def as_csv(self) -> str:
        """A row for each student. Text that a spreadsheet would run as a formula is quoted with an apostrophe."""
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(["student", *(c.name for c in self.checks), "marks", "points", "what happened"])
        for s in self.students:
            marks = {o.cell: o.marks for o in s.outcomes}
            row = [s.student, *(f"{marks.get(c.cell, 0):g}" for c in self.checks), f"{s.marks:g}", f"{self.points:g}"]
            table.writerow([_harmless(cell) for cell in [*row, s.what_happened()]])
        return text.getvalue()


def _harmless(text: str) -> str:
    return "'" + text if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
