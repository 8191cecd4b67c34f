"""One run over a class: from submissions, through an engine and the journal, into the gradebook."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Collection, Iterator
from dataclasses import asdict
from pathlib import Path

from nbformat import NotebookNode

from grader import engines
from grader.course.sources import notebook_bytes, source_notebook
from grader.execute.notebook import NotebookLimits
from grader.gradebook.gradebook import Course, GradebookError
from grader.gradebook.journal import DiskFull, Journal
from grader.grading.bookkeeper import Bookkeeper
from grader.grading.marking import Marker, checks_of, exercises_of, not_yet
from grader.intake.collect import Submission, nothing_of
from grader.intake.roster import NOTHING, Entry, absent
from grader.judge import sandbox
from grader.judge.seeds import draw_seed, seed_of
from grader.marks import late
from grader.marks.marks import sentence
from grader.marks.results import Graded


class Clock:
    """Where the time goes: seconds by step."""

    def __init__(self):
        self.steps: dict[str, float] = {}
        self._begin = time.perf_counter()

    def step(self, name: str) -> None:
        """End a step that began where the last one ended."""
        now = time.perf_counter()
        self.steps[name] = self.steps.get(name, 0.0) + now - self._begin
        self._begin = now


class Watcher:
    """Who looks on while a class is graded; this one does not."""

    def begin(self, engine: engines.Engine, total: int, done: int) -> None:
        """The engine begins; `done` of `total` submissions need it no more."""

    def step(self, student: Graded) -> None:
        """One more is graded and recorded."""


class Run:
    """One run over a class. Holds of each student what the reports need, and no notebook."""

    def __init__(self, course: Course, journal: Journal, out: Path, marker: Marker | None, limits: NotebookLimits):
        self.course, self.journal, self.out, self.marker, self.limits = course, journal, out, marker, limits
        self.students: dict[str, Graded] = {}
        self.books = Bookkeeper(course, journal, out, self.students, marker)
        self.hashes: dict[str, str] = {}
        message = sandbox.warning() if marker is None else None
        self.notes: list[str] = [message] if message else []

    def release(self, unit: Path, seed: int | None, resume: bool) -> None:
        """Enter the unit in the gradebook, and start or continue the journal."""
        source = source_notebook(unit)
        release, mode = release_hash(source), "judge" if self.marker is None else "shown"
        if resume:
            self.journal.may_go_on(unit.name, release, seed, mode)
        self.released = self.course.release(source)
        self.checks = checks_of(self.released)
        self.exercises = exercises_of(self.released) if self.marker is None else []
        if not resume:
            # A seed stays with its folder, so that grading again gives the same submission the same marks.
            before = self.journal.header["seed"] if self.journal.header else draw_seed()
            self.journal.begin(unit.name, release, before if seed is None else seed, mode)

    def restore(self, handed_in: list[Submission], resume: bool) -> list[str]:
        """Take from the journal what is there; returns the students who are still to be graded, the slowest first."""
        book, todo = self.course.marks() if resume else {}, []
        for submission in handed_in:
            student = submission.student
            self.students[student] = not_yet(submission, self.checks)
            if submission.problem:
                self.books.put(student, "", {})
                continue
            self.hashes[student] = self._hash(student)
            if not resume or not self._restored(student, book):
                todo.append(student)
            submission.notebook = None  # it is laid out; a large class would fill the memory
        before = _seconds_before(self.out)
        return sorted(todo, key=lambda s: -before.get(s, float("inf")))

    def _hash(self, student: str) -> str:
        """What tells a student's submission from an earlier one."""
        unit = self.course.unit
        path = self.course.folder / "submitted" / student / unit / f"{unit}.ipynb"
        return hashlib.sha256(path.read_bytes()).hexdigest()

    def _restored(self, student: str, book) -> bool:
        entry = self.journal.get(student)
        same = entry is not None and entry.get("submitted") == self.hashes[student]
        if not same or "notebook" not in entry["result"]:
            return False  # not graded yet, handed in again, or lost with its worker
        executed = self.books.mark(student, entry["result"])
        if not self.course.has(student, entry["marks"], book):
            self.books.record(student, executed, entry["result"])
        return True

    def work(self, engine: engines.Engine, todo: list[str], watcher: Watcher, clock: Clock, final: bool) -> None:
        """`final`: the points will not change, so feedback can be written while other submissions run."""
        watcher.begin(engine, len(self.students), len(self.students) - len(todo))
        for student, result in engine.run(self._jobs(todo)):
            clock.step("run and judge")
            if result.get("full"):
                raise DiskFull(f"where submissions run ({result['defect']})")
            executed = self.books.mark(student, result)
            self.books.put(student, self.hashes[student], result)
            clock.step("journal")
            if executed:
                self.books.record(student, executed, result)
            clock.step("record")
            if executed and final:
                with contextlib.suppress(GradebookError):  # tried again at the end, and said there
                    self.course.feedback(student)
                clock.step("feedback")
            watcher.step(self.students[student])

    def _jobs(self, todo: list[str]) -> Iterator[dict]:
        """Sanitized one by one, as the engine has room for them."""
        for student in todo:
            try:
                notebook = self.course.sanitized(student)
            except Exception as problem:  # nbgrader's, for a notebook in a state that nobody thought of
                why = sentence(f"Not graded, 0 points: nbgrader cannot read it ({problem})")
                self.students[student].problem = why
                self.books.put(student, self.hashes[student], {"defect": why})
                continue
            yield {
                "key": student,
                "notebook": json.dumps(notebook),
                "seed": seed_of(self.journal.header["seed"], notebook),
                "exercises": self.exercises,
                "limits": asdict(self.limits),
            }

    def add_absent(self, roster: Collection[Entry]) -> None:
        """Enter everyone in the roster who has submitted nothing, and take out who was entered so before and has."""
        if not roster:
            return
        students = {s.student: s for s in self.students.values() if s.problem != NOTHING}
        missing, found = absent(roster, [(s.student, s.origin) for s in students.values()])
        entered = self.course.marks().keys() | self.students.keys()
        for name in ({entry.student for entry in found} - students.keys()) & entered:
            self.students.pop(name, None)
            self.journal.forget(name)
            self.course.forget(name)
        for submission in nothing_of(missing, students):
            self.students[submission.student] = not_yet(submission, self.checks)
            self.books.put(submission.student, "", {})

    def close_books(self, rules: late.Rules | None) -> None:
        """Enter students who could not be graded, and the late penalties: everyone is in the gradebook."""
        students = list(self.students.values())
        for student in students:
            if student.problem:
                self.course.record_nothing(student.student)
        late.apply(rules, students)
        late.enter(self.course, students, rules)


def release_hash(source: NotebookNode) -> str:
    """What tells a unit's source from a changed one."""
    return hashlib.sha256(notebook_bytes(source)).hexdigest()


def _seconds_before(out: Path) -> dict[str, float]:
    """How long each student's notebook took in an earlier run into the same folder."""
    try:
        students = json.loads((out / "grades.json").read_text(encoding="utf-8"))["students"]
        return {s["student"]: float(s["seconds"]) for s in students}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
