"""The results of grading a class as plain data, and two exports: JSON with everything, CSV for a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from grader.marks.students import Students
from labutils.spec.verdict import Verdict


@dataclass(frozen=True)
class Check:
    """An exercise as the class report shows it: its name and title, the check cell, the points it is worth."""

    name: str
    title: str
    cell: str
    points: float


@dataclass(frozen=True)
class Outcome:
    """One student's result in one check. `kind` is empty for full points, else the diagnosis or what stopped it."""

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

    @property
    def open(self) -> float:
        """Points that are neither earned nor lost yet: the grading machine could not judge them."""
        return min(self.verdict.open, self.points - self.marks) if self.verdict else 0.0


@dataclass(frozen=True)
class Origin:
    """Where a submission came from, in its learning platform's terms, so that points can be exported to it.

    `system` is "folder", "nbgrader", "moodle", "canvas" or "gradescope". `id` is that system's number of the learner
    (Moodle's participant, Canvas's user, Gradescope's submission) and `name` its spelling of the name. `handed_in` is
    an ISO time in UTC or empty, and `clock` says whose time that is. `marked_late` is the platform's own late flag;
    None if it has none.
    """

    system: str = "folder"
    id: str = ""
    name: str = ""
    email: str = ""
    file: str = ""
    handed_in: str = ""
    clock: str = ""
    marked_late: bool | None = None


@dataclass(frozen=True)
class Lateness:
    """A late penalty: a share of the earned points, in percent, and the sentence that says why.

    `due` is the learner's own due time, ISO in UTC, any extension included.
    """

    percent: float
    sentence: str
    due: str = ""


@dataclass
class Graded:
    """One student. With `problem`, the submission could not be graded at all; then every outcome is 0.

    `marks` are the earned points, `score` what remains after the late penalty.
    """

    student: str
    outcomes: list[Outcome] = field(default_factory=list)
    repairs: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    problem: str = ""
    manual: float = 0.0
    seconds: float = 0.0
    origin: Origin | None = None
    late: Lateness | None = None

    @property
    def marks(self) -> float:
        return sum(o.marks for o in self.outcomes)

    @property
    def penalty(self) -> float:
        return penalty(self.marks, self.late)

    @property
    def score(self) -> float:
        return self.marks - self.penalty

    @property
    def points(self) -> float:
        return sum(o.points for o in self.outcomes)

    @property
    def open(self) -> float:
        """Points that are still open: see `Outcome.open`."""
        return sum(o.open for o in self.outcomes)

    def what_happened(self) -> str:
        """The sentences that a reader of the table needs, the most serious first."""
        late = [self.late.sentence] if self.late else []
        if self.problem:
            return " ".join([self.problem, *late])
        failed = [o for o in self.outcomes if not o.passed]
        unfilled = [o for o in failed if o.kind == "unfilled"]
        # The first sentence says what was seen; what to try is in the report.
        failures = [f"{o.name}: {o.sentence.split('. ')[0].rstrip('.')}." for o in failed if o not in unfilled]
        sentences = [*late, *self.events, *_together(self.repairs), *failures]
        if unfilled:
            sentences.append(f"{len(unfilled)} of {len(self.outcomes)} exercises not written yet.")
        return " ".join(sentences) or "All checks passed."

    def to_json(self) -> dict[str, Any]:
        """Everything but the single samples of timings, which are in the records."""
        happened = self.what_happened()
        data = asdict(self) | {"marks": self.marks, "points": self.points, "score": self.score}
        for outcome in data["outcomes"]:
            if outcome["verdict"]:
                outcome["verdict"]["timing"].pop("samples", None)
        return data | {"what_happened": happened}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Graded:
        """The student whom `to_json` wrote."""
        made = {"marks", "points", "score", "what_happened"}
        kept = {k: v for k, v in data.items() if k not in made}
        kept["outcomes"] = [
            Outcome(**{**o, "verdict": Verdict.from_json(o["verdict"]) if o["verdict"] else None})
            for o in data["outcomes"]
        ]
        kept["origin"] = Origin(**data["origin"]) if data.get("origin") else None
        kept["late"] = Lateness(**data["late"]) if data.get("late") else None
        return Graded(**kept)


def penalty(marks: float, late: Lateness | None) -> float:
    """The points deducted from those earned."""
    return round(marks * late.percent / 100, 2) if late else 0.0


@dataclass
class ClassResults:
    """A graded class. `seed` drew the hidden cases: with it the same run can be made again.

    `findings` is what `grader.reports.findings` saw in the submissions side by side, as JSON; None before it looked.
    """

    unit: str
    title: str
    checks: list[Check]
    students: Sequence[Graded]
    device: str
    seed: int
    when: str
    seconds: float = 0.0
    manual: float = 0.0
    notes: list[str] = field(default_factory=list)
    findings: dict[str, Any] | None = None

    @property
    def points(self) -> float:
        return sum(c.points for c in self.checks)

    def head(self) -> dict[str, Any]:
        """Everything but the students, as JSON."""
        head = asdict(replace(self, students=[]))
        del head["students"]
        return head

    def json_lines(self) -> Iterator[str]:
        """The text of a `grades.json`, piece by piece: a line for each student."""
        yield json.dumps(self.head(), indent=1, ensure_ascii=False)[:-2] + f",\n{_STUDENTS}"
        for number, student in enumerate(self.students):
            yield "," * bool(number) + "\n" + json.dumps(student.to_json(), ensure_ascii=False)
        yield "\n]}\n"

    def as_json(self) -> str:
        """The results with a line for each student."""
        return "".join(self.json_lines())

    @staticmethod
    def from_json(text: str) -> ClassResults:
        """The results in the text of a `grades.json`."""
        return ClassResults.from_lines(io.StringIO(text, newline="\n"))

    @staticmethod
    def from_lines(lines: Iterable[str]) -> ClassResults:
        """The results in the lines of a `grades.json`. Raises ValueError, KeyError or TypeError if it has none."""
        head, students = parts_of(lines)
        checks = [Check(**c) for c in head.pop("checks")]
        return ClassResults(**head, checks=checks, students=Students(map(Graded.from_json, students)))

    def as_csv(self) -> str:
        """A row for each student, with the same columns for every class. Text that a spreadsheet would run as a formula
        is quoted with an apostrophe."""
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        totals = ["marks", "points", "open", "penalty", "score"]
        table.writerow(["student", *(c.name for c in self.checks), *totals, "what happened"])
        for s in self.students:
            marks = {o.cell: o.marks for o in s.outcomes}
            numbers = [*(marks.get(c.cell, 0.0) for c in self.checks)]
            numbers += [s.marks, self.points, s.open, s.penalty, s.score]
            row = [s.student, *(f"{n:g}" for n in numbers), s.what_happened()]
            table.writerow([harmless(cell) for cell in row])
        return text.getvalue()


_STUDENTS = ' "students": ['


def parts_of(lines: Iterable[str]) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """What is in the lines of a `grades.json`: everything but the students, and these one by one. Raises ValueError."""
    lines, head = iter(lines), []
    for line in lines:
        if line.rstrip("\n") == _STUDENTS:
            return json.loads("".join(head).rstrip().rstrip(",") + "}"), _students(lines)
        head.append(line)
    data = json.loads("".join(head))  # laid out by another program
    students = data.pop("students")
    return data, iter(students)


def _students(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.rstrip("\n") == "]}":
            return
        if line.strip():
            yield json.loads(line.rstrip().removesuffix(","))
    raise ValueError("it ends before its last student")


_ONE = re.compile(r"^The grading information of .* was lost and is restored\.$")


def _together(repairs: list[str]) -> list[str]:
    """The repairs of a notebook that lost everything in one sentence; they stand one by one in the repair report."""
    lost = [r for r in repairs if _ONE.match(r)]
    if len(lost) < 4:
        return repairs
    rest = [r for r in repairs if r not in lost]
    return [*rest, f"The grading information of {len(lost)} cells was lost and is restored."]


def harmless(text: str) -> str:
    """Text for a cell of a spreadsheet, which would run some of it as a formula."""
    return "'" + text if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
