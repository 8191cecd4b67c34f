"""Records one graded submission: the student's results, the journal, the gradebook, the verdict record."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from grader.gradebook.gradebook import Course, GradebookError
from grader.gradebook.journal import Journal
from grader.grading.marking import Marker, mark
from grader.marks.marks import Result, marks_of, sentence
from grader.marks.results import Graded
from labutils.spec.verdict import Verdict


class Bookkeeper:
    """Enters graded submissions, one at a time. A run over a class has one, and so has grading an exercise again.

    `students` belongs to the caller: results by student, which `mark` and `record` change.
    """

    def __init__(
        self, course: Course, journal: Journal, out: Path, students: dict[str, Graded], marker: Marker | None = None
    ):
        self.course, self.journal, self.out = course, journal, out
        self.students, self.marker = students, marker or marks_of

    def mark(self, student: str, result: dict) -> NotebookNode | None:
        """Put what an engine gave into the student's results; the executed notebook with the verdicts in it."""
        graded = self.students[student]
        if "notebook" not in result:
            graded.problem = sentence(f"Not graded, 0 points: {_why(result)}")
            return None
        executed = nbformat.reads(result["notebook"], as_version=4)
        verdicts = {i: Verdict.from_json(v) for i, v in result["verdicts"].items()}
        mark(graded, executed, result["log"], verdicts, self.marker)
        return executed

    def put(self, student: str, submitted: str, result: dict) -> None:
        """Write to the journal what an engine gave; `submitted` is the hash of what was submitted."""
        graded = self.students[student]
        marks = {} if graded.problem else {o.cell: o.marks for o in graded.outcomes}
        entry = {"submitted": submitted, "result": result, "marks": marks, "problem": graded.problem}
        self.journal.put(student, entry)

    def record(self, student: str, executed: NotebookNode, result: dict) -> None:
        """Write the verdict record, and enter the points in the gradebook. If nbgrader fails, the student gets 0 points
        and the reason."""
        if result["record"]:
            _write_record(self.out / "records", student, result["record"])
        graded = self.students[student]
        results = {o.cell: Result(o.marks, o.verdict, o.sentence) for o in graded.outcomes}
        try:
            self.course.record(student, executed, results)
        except GradebookError as problem:
            graded.problem = sentence(f"Not graded, 0 points: {problem}")
            graded.outcomes = [
                replace(o, marks=0.0, kind="not graded", sentence=graded.problem) for o in graded.outcomes
            ]


def _why(result: dict) -> str:
    return result["lost"] if "lost" in result else f"the grader could not run the notebook: {result['defect']}"


def _write_record(folder: Path, student: str, record: dict) -> None:
    """Keep what is needed to judge this submission again and get the same (`python -m grader judge --replay`)."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{student}.json"
    path.with_suffix(".new").write_text(json.dumps(record), encoding="utf-8")
    path.with_suffix(".new").replace(path)
