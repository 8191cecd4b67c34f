"""Judge exercises again after a test was fixed, and nothing else.

Each submission of a graded class is judged again with the seed that it had, from the journal, on any engine; no
notebook runs again. The points of other exercises stay, and so does everything that a person did in the formgrader. If
a person changed these exercises' points by hand, nbgrader asks for another look. Each new verdict is in the journal
first, so the same command goes on with a regrade that ended early.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from grader import engines
from grader.course.sources import ROOT, source_notebook
from grader.execute.notebook import is_check
from grader.gradebook.gradebook import Course
from grader.gradebook.journal import DiskFull, Journal, JournalError
from grader.gradebook.provenance import named
from grader.grading.bookkeeper import Bookkeeper
from grader.grading.derive import rebuild
from grader.grading.marking import exercises_of
from grader.grading.options import GradeOptions
from grader.grading.run import Watcher, about_release, mixed, release_hash
from grader.judge.seeds import seed_of
from grader.marks.marks import exercise_of
from grader.marks.results import ClassResults, Graded


class NoRegrade(JournalError):
    """Why exercises cannot be judged again, in a sentence."""


class Regrade:
    """Takes everything of a graded class from its journal but the verdicts of some exercises."""

    def __init__(self, out: Path, journal: Journal):
        self.course, self.journal = Course(out / "course", journal.the_run()["unit"]), journal
        self.students: dict[str, Graded] = {}
        self.books = Bookkeeper(self.course, journal, out, self.students)
        self.notes: list[str] = []

    def begin(self, only: Sequence[str], solutions: Path) -> None:
        """Note in the journal what is judged again, and enter the unit as it is now."""
        header, source = self.journal.header, source_notebook(solutions / self.course.unit)
        known, release = exercises_of(source), release_hash(source)
        if unknown := [o for o in only if not any(o in (i, short(i)) for i in known)]:
            raise NoRegrade(
                f"{self.course.unit} has no exercise {unknown[0]!r}; it has {', '.join(map(short, known))}."
            )
        self.exercises = [i for i in known if not only or i in only or short(i) in only]
        changed, before = self.journal.changes(release), header.get("regrade")
        if before and set(before["exercises"]) - set(self.exercises):
            raise NoRegrade(f"Judging {named(map(short, before['exercises']))} again is not finished: do that first.")
        goes_on = before and before["exercises"] == self.exercises and not changed
        regrade = before if goes_on else {"id": secrets.token_hex(8), "exercises": self.exercises}
        shared = [name for name in changed if not name.startswith(("labutils/exercises/", "solutions/"))]
        if shared and self.exercises != known:
            self.notes.append(mixed(shared))
        self.id = regrade["id"]
        self.journal.go_on(release, regrade=regrade, **about_release(source))
        self.course.release(source)

    def left(self) -> list[str]:
        """Everyone who was graded, but for those whom this regrade has judged already."""
        entries = self.journal.entries()
        return [e["student"] for e in entries if "notebook" in e["result"] and e.get("regrade") != self.id]

    def jobs(self, students: list[str]) -> Iterator[dict]:
        for student in students:
            entry = self.journal.get(student)
            notebook = self._submission(student, entry)
            # the seed that it was graded with, which an older release may have made in another way
            seed = entry["result"]["record"].get("seed") or seed_of(self.journal.header["seed"], notebook)
            job = {"key": student, "notebook": json.dumps(notebook), "seed": seed, "exercises": self.exercises}
            yield job | {"run": False}

    def settle(self, student: str, result: dict) -> None:
        """Enter a student's new verdicts in the journal, and the points in the gradebook."""
        if result.get("full"):
            raise DiskFull(f"where submissions are judged ({result['defect']})")
        entry = self.journal.get(student)
        graded = self.students[student] = Graded.from_json(entry["graded"])
        before, again = graded.marks, entry["result"]
        if "verdicts" not in result:
            why = result.get("lost") or result["defect"]
            self.notes.append(f"{student} was not judged again, and the points are as before: {why}.")
            return
        again["verdicts"] |= result["verdicts"]
        if again["record"] and result["record"]:
            again["record"] = result["record"] | {"verdicts": again["verdicts"]}
        again["notebook"] = nbformat.writes(self._submission(student, entry))
        graded.problem = ""
        executed = self.books.mark(student, again)
        looked_at = self.course.looked_at(student) - self._checks(executed)
        about = {"regrade": self.id, "before": before, "looked_at": sorted(looked_at)}
        entry = self.books.put(student, entry["submitted"], again, **about)
        self.books.record(student, executed, entry)

    def changes(self) -> dict[str, tuple[float, float]]:
        """The students whose points this regrade changed, with the points before and now."""
        found = {}
        for entry in self.journal.entries():
            now = sum(entry["marks"].values())
            if entry.get("regrade") == self.id and entry["before"] != now:
                found[entry["student"]] = entry["before"], now
        return found

    def _checks(self, executed: NotebookNode) -> set[str]:
        """The cells whose points come from the exercises that are judged again."""
        return {c.id for c in executed.cells if is_check(c) and exercise_of(c.source) in self.exercises}

    def _submission(self, student: str, entry: dict) -> NotebookNode:
        """The submission with the tests as they are now, and the outputs that it had."""
        self.books.restore_submitted(student, entry)
        notebook = self.course.sanitized(student)
        before = {c.id: c for c in nbformat.reads(entry["result"]["notebook"], as_version=4).cells}
        for cell in notebook.cells:
            if cell.cell_type == "code" and (old := before.get(cell.id)) and old.cell_type == "code":
                cell.outputs, cell.execution_count = old.outputs, old.execution_count
        return notebook


def short(exercise: str) -> str:
    """An exercise's name within its unit."""
    return exercise.split("/")[-1]


def regrade(
    out: Path,
    only: Sequence[str] = (),
    options: GradeOptions | None = None,
    *,
    solutions: Path = ROOT / "solutions",
    engine: engines.Engine | None = None,
    watcher: Watcher | None = None,
) -> tuple[ClassResults, dict[str, tuple[float, float]]]:
    """Judge the exercises `only`, or all, of everyone in `out` again, and bring everything that the class shows up to
    date. Returns the results, and for each student whose points changed those before and now.

    Raises NoRegrade, and what grading raises: JournalError, GradebookError, BuildError, NoEngine, DiskFull.
    """
    options, watcher = options or GradeOptions(), watcher or Watcher()
    with contextlib.ExitStack() as stack:
        journal = stack.enter_context(contextlib.closing(Journal(out / "journal")))
        header = journal.the_run()
        if not header["finished"] and not header.get("regrade"):
            raise NoRegrade(f"The run in {out} is not finished: continue it with `grade --resume`.")
        if header["mode"] != "judge":
            raise NoRegrade(
                "These points come from the notebooks (--trust-notebooks); only the judge's can be recomputed."
            )
        again = Regrade(out, journal)
        again.begin(only, solutions)
        engine = stack.enter_context(contextlib.closing(engine or options.open_engine(out)))
        everyone, left = journal.students(), again.left()
        watcher.begin(engine, len(everyone), len(everyone) - len(left))
        for student, result in engine.run(again.jobs(left)):
            again.settle(student, result)
            watcher.step(again.students.pop(student))
        changes, when = again.changes(), datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        what = named(map(short, again.exercises))
        note = f"{what} judged again on {when}; the points of {len(changes)} students changed."
        header["notes"] = [*header["notes"], *again.notes, note]
        return rebuild(out, journal, again.books), changes
