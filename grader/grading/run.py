"""One run over a class: from submissions, through an engine and the journal, into the gradebook."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Collection, Iterator
from dataclasses import asdict, replace
from pathlib import Path

from nbformat import NotebookNode

from grader import engines
from grader.course.sources import source_notebook
from grader.execute.notebook import NotebookLimits
from grader.gradebook.gradebook import Course, GradebookError
from grader.gradebook.journal import DiskFull, Journal
from grader.gradebook.provenance import named
from grader.grading.bookkeeper import Bookkeeper
from grader.grading.joining import join
from grader.grading.marking import Marker, checks_of, exercises_of, is_manual, not_yet, ungraded
from grader.grading.options import GradeOptions
from grader.intake.collect import Submission, lay_out, nothing_of
from grader.intake.roster import NOTHING, Entry, absent, match
from grader.judge import sandbox
from grader.judge.seeds import draw_seed, seed_of
from grader.marks.marks import sentence
from grader.marks.results import Graded, parts_of


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
    """One run over a class. Holds of each student who is done the name, the origin and why nothing was graded: all else
    is in the journal, and a large class's would fill the memory."""

    def __init__(self, course: Course, journal: Journal, out: Path, marker: Marker | None, limits: NotebookLimits):
        self.course, self.journal, self.out, self.marker, self.limits = course, journal, out, marker, limits
        self.students: dict[str, Graded] = {}
        self.books = Bookkeeper(course, journal, out, self.students, marker)
        self.hashes: dict[str, str] = {}
        message = sandbox.warning() if marker is None else None
        self.notes: list[str] = [message] if message else []

    def release(self, unit: Path, options: GradeOptions) -> None:
        """Enter the unit in the gradebook, and start the journal or continue it."""
        source, header = source_notebook(unit), self.journal.header
        release, mode = release_hash(source), "judge" if self.marker is None else "shown"
        self.adds = options.resume or header is not None and not options.fresh
        changed = []
        if self.adds:
            changed = self.journal.may_go_on(release, options.seed, mode, options.accept_changes)
        if changed:
            self.notes.append(mixed(changed))
        self.released = self.course.release(source)
        self.exercises = exercises_of(self.released) if self.marker is None else []
        about = about_release(self.released) | {"notes": self.notes, "when": "", "seconds": 0.0}
        self.checks = checks_of(self.released)
        rules = options.rules.text if options.rules else None
        if self.adds:
            about["notes"] = [*header["notes"], *(n for n in self.notes if n not in header["notes"])]
            self.journal.go_on(release, **about, late=header["late"] if rules is None else rules)
        else:
            # A seed stays with its folder, so that grading again gives the same submission the same marks.
            before = header["seed"] if header else draw_seed()
            seed = before if options.seed is None else options.seed
            replaces = self.course.marks().keys() | self.course.laid_out()
            self.journal.begin(unit.name, release, seed, mode, replaces, **about, late=rules or "")

    def accept(self, handed_in: list[Submission], roster: Collection[Entry] = ()) -> None:
        """Lay out the submissions beside what the run has already, and expect it to be graded. `roster` knows e-mail
        addresses that the names of submitted files do not have."""
        if self.adds:
            join(handed_in, {e["student"]: Graded.from_json(e["graded"]).origin for e in self.journal.entries()})
        submitted = {s.student: s for s in handed_in}
        for entry, student in match(roster, [(s.student, s.origin) for s in handed_in]).items():
            origin = submitted[student].origin
            submitted[student].origin = replace(origin, email=origin.email or entry.email)
        lay_out(handed_in, self.course.folder, self.course.unit, adding=self.adds)
        self.journal.expect({s.student: not_yet(s, []).to_json() for s in handed_in})

    def restore(self) -> list[str]:
        """Take from the journal what is there; returns the students who are still to be graded, the slowest first."""
        todo = []
        for entry in self.journal.entries() if self.adds else ():
            self.students[entry["student"]] = Graded.from_json(entry["graded"] | {"outcomes": []})
        for student, expected in self.journal.pending().items():
            self.students[student] = ungraded(Graded.from_json(expected), self.checks)
            if self.students[student].problem:
                self.books.put(student, "", {})
            elif not self._restored(student):
                todo.append(student)
                continue
            self.students[student].outcomes = []
        before = _seconds_before(self.out)
        return sorted(todo, key=lambda s: -before.get(s, float("inf")))

    def _hash(self, student: str) -> str:
        """What tells a student's submission from an earlier one."""
        return hashlib.sha256(self.course.submitted(student).read_bytes()).hexdigest()

    def _restored(self, student: str) -> bool:
        self.hashes[student], entry = self._hash(student), self.journal.get(student)
        same = entry is not None and entry["submitted"] == self.hashes[student]
        if not same or "notebook" not in entry["result"]:
            return False  # not graded yet, handed in again, or lost with its worker
        before, now = Graded.from_json(entry["graded"]), self.students[student]
        if (before.origin, before.repairs) != (now.origin, now.repairs):  # the same notebook, handed in again
            before.origin, before.repairs = now.origin, now.repairs
            is_recorded = self.journal.is_recorded(student)
            self.students[student] = before
            self.books.put(student, entry["submitted"], entry["result"])
            if is_recorded:  # the gradebook says nothing of this
                self.journal.note_recorded(student)
        return True

    def work(self, engine: engines.Engine, todo: list[str], watcher: Watcher, clock: Clock, final: bool) -> None:
        """`final`: the points will not change, so feedback can be written while other submissions run."""
        watcher.begin(engine, len(self.students), len(self.students) - len(todo))
        for student, result in engine.run(self._jobs(todo)):
            clock.step("run and judge")
            if result.get("full"):
                raise DiskFull(f"where submissions run ({result['defect']})")
            executed = self.books.mark(student, result)
            entry = self.books.put(student, self.hashes[student], result)
            clock.step("journal")
            if executed:
                self.books.record(student, executed, entry)
            clock.step("record")
            if executed and final:
                with contextlib.suppress(GradebookError):  # tried again at the end, and said there
                    self.course.feedback(student)
                clock.step("feedback")
            watcher.step(self.students[student])
            self.students[student].outcomes = []

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
            self.course.remove(name)
            self.books.forget(name)
        for submission in nothing_of(missing, students):
            self.students[submission.student] = not_yet(submission, self.checks)
            self.books.put(submission.student, "", {})
            self.students[submission.student].outcomes = []

    def forget_students(self) -> None:
        """The journal has everyone: what is made from it needs the memory."""
        self.students.clear()
        self.hashes.clear()


def release_hash(source: NotebookNode) -> str:
    """What tells a unit's source from one that asks or checks something else. Text between the exercises does not
    count."""
    cells = [c for c in source.cells if c.cell_type == "code" or "nbgrader" in c.metadata]
    counted = [(c.cell_type, c.id, c.source, c.metadata.get("nbgrader")) for c in cells]
    return hashlib.sha256(json.dumps(counted, sort_keys=True).encode()).hexdigest()


def mixed(changed: list[str]) -> str:
    """The note on a class that was graded with different versions of something."""
    return f"Points from before and after a change of {named(changed)} are in one class."


def about_release(released: NotebookNode) -> dict:
    """What the results of a class say of its unit."""
    return {
        "title": released.cells[0].source.split("\n", 1)[0].lstrip("# "),
        "checks": [asdict(check) for check in checks_of(released)],
        "manual": sum(c.metadata.nbgrader.points for c in released.cells if is_manual(c)),
    }


def _seconds_before(out: Path) -> dict[str, float]:
    """How long each student's notebook took in an earlier run into the same folder."""
    try:
        with (out / "grades.json").open(encoding="utf-8", newline="\n") as file:
            return {s["student"]: float(s["seconds"]) for s in parts_of(file)[1]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
