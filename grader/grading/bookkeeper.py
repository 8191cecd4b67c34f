"""Records one graded submission: first in the journal; then, from that entry, in the gradebook and the records.

What is entered follows from the entry alone, so it can be entered again at any time.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from grader.gradebook.gradebook import Course, GradebookError, Marks
from grader.gradebook.journal import Journal
from grader.grading.marking import Marker, mark
from grader.intake.collect import write_notebook
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
        self._recorded: set[str] = set()

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

    def put(self, student: str, submitted: str, result: dict, **about) -> dict:
        """Write to the journal what an engine gave; `submitted` is the hash of what was submitted, `about` what else
        the entry says. Returns the entry."""
        graded = self.students[student]
        entry = {"submitted": submitted, "result": result, "graded": graded.to_json(), "marks": marks_in(graded)}
        self.journal.put(student, entry := {"student": student, **entry, **about})
        return entry

    def record(self, student: str, executed: NotebookNode, entry: dict) -> None:
        """Write the verdict record of a journal's entry, and enter its points in the gradebook. If nbgrader fails, the
        student gets 0 points and the reason."""
        self.journal.forget_recorded(student)
        if entry["result"]["record"]:
            write_record(self.out, student, entry["result"]["record"])
        graded = self.students[student]
        results = {o.cell: Result(o.marks, o.verdict, o.sentence) for o in graded.outcomes}
        try:
            self.course.record(student, executed, results)
        except GradebookError as problem:
            graded.problem = sentence(f"Not graded, 0 points: {problem}")
            graded.outcomes = [
                replace(o, marks=0.0, kind="not graded", sentence=graded.problem) for o in graded.outcomes
            ]
            self.put(student, entry["submitted"], entry["result"])
        else:
            self.course.keep_looked_at(student, entry.get("looked_at", ()))
            self.journal.note_recorded(student)
            self._recorded.add(student)

    def catch_up(self, entry: dict, book: Marks) -> Graded:
        """Make gradebook, which held `book`, nbgrader's folders and records what the journal's entry says, if they are
        not that already. Returns the student."""
        student, result = entry["student"], entry["result"]
        if "notebook" not in result:
            self.course.record_nothing(student, book)
            remove_record(self.out, student)
        elif student not in self._recorded and not self._is_recorded(entry, book):
            if self.journal.is_recorded(student) and student in book:  # only a file is lost: nobody need look again
                entry = entry | {"looked_at": sorted(self.course.looked_at(student))}
            self.students[student] = Graded.from_json(entry["graded"])
            self.students[student].problem = ""
            self.restore_submitted(student, entry)
            executed = self.mark(student, result)
            if entry["graded"]["problem"]:  # nbgrader failed then
                entry = self.put(student, entry["submitted"], result)
            self.record(student, executed, entry)
            if self.students[student].problem:
                self.course.record_nothing(student, self.course.marks())
            return self.students[student]
        return Graded.from_json(entry["graded"])

    def restore_submitted(self, student: str, entry: dict) -> None:
        """Write the submission where nbgrader looks for it, if it is not there: a backup may have the journal and the
        gradebook alone."""
        path = self.course.submitted(student)
        if not path.exists():
            write_notebook(path, nbformat.reads(entry["result"]["notebook"], as_version=4))

    def forget(self, student: str) -> None:
        """Nothing of a student who is not in the journal any more is left."""
        self.journal.forget_recorded(student)
        remove_record(self.out, student)

    def _is_recorded(self, entry: dict, book: Marks) -> bool:
        student = entry["student"]
        return (
            self.journal.is_recorded(student)
            and self.course.has(student, entry["marks"], book)
            and read_record(self.out, student) == (entry["result"]["record"] or None)
        )


def marks_in(graded: Graded) -> dict[str, float]:
    """A student's points by cell; none for a submission that could not be graded."""
    return {} if graded.problem else {o.cell: o.marks for o in graded.outcomes}


def _why(result: dict) -> str:
    return result["lost"] if "lost" in result else f"the grader could not run the notebook: {result['defect']}"


def write_record(out: Path, student: str, record: dict) -> None:
    """Keep what is needed to judge this submission again and get the same (`python -m grader judge --replay`)."""
    path = _record(out, student)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    new.write_text(json.dumps(record), encoding="utf-8")
    new.replace(path)


def read_record(out: Path, student: str) -> dict | None:
    try:
        return json.loads(_record(out, student).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def remove_record(out: Path, student: str) -> None:
    _record(out, student).unlink(missing_ok=True)


def _record(out: Path, student: str) -> Path:
    return out / "records" / f"{student}.json"
