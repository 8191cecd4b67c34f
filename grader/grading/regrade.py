"""Grade one exercise again after its test was fixed, and nothing else.

    python -m grader regrade OUT --only EXERCISE

Each submission in OUT is judged again in this exercise with the same seed, from the journal: no notebook runs again.
The points of other exercises stay, and so does everything that a person did in the formgrader. If a person changed this
exercise's points by hand, nbgrader asks for another look.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from grader.course.regions import BuildError
from grader.course.sources import ROOT, source_notebook
from grader.engines import workers_here
from grader.execute.notebook import is_check
from grader.gradebook.gradebook import Course, GradebookError
from grader.gradebook.journal import DiskFull, Journal, JournalError, versions, write
from grader.grading.bookkeeper import Bookkeeper
from grader.grading.marking import checks_of, exercises_of
from grader.grading.run import release_hash
from grader.judge.judge_pool import JudgePool
from grader.judge.seeds import seed_of
from grader.marks import late
from grader.marks.marks import exercise_of
from grader.marks.results import ClassResults
from grader.reports import report


class NoRegrade(Exception):
    """Why an exercise cannot be graded again, in a sentence."""


class Regrade:
    """Takes everything of a graded class from its journal but the verdicts of one exercise."""

    def __init__(self, out: Path, journal: Journal, results: ClassResults):
        self.course, self.journal = Course(out / "course", results.unit), journal
        self.students = {s.student: s for s in results.students}
        self.books = Bookkeeper(self.course, journal, out, self.students)

    def begin(self, only: str, solutions: Path) -> str:
        """Enter the unit as it is now; returns the exercise's id."""
        source = source_notebook(solutions / self.course.unit)
        self.released = self.course.release(source)
        self.checks, known = checks_of(self.released), exercises_of(self.released)
        wanted = [i for i in known if only in (i, i.split("/")[-1])]
        if len(wanted) != 1:
            names = ", ".join(i.split("/")[-1] for i in known)
            raise NoRegrade(f"{self.course.unit} has no exercise {only!r}; it has {names}.")
        header = self.journal.header | {"versions": versions()}
        header["release"] = release_hash(source)
        self.journal.header = header
        write(self.journal.folder / "header.json", header)
        return wanted[0]

    def prepared(self, student: str) -> tuple[dict, NotebookNode] | None:
        """A student's entry, and the submission with the outputs it had; None if it was never graded."""
        entry = self.journal.get(student)
        if entry is None or "notebook" not in entry["result"] or self.students[student].problem:
            return None
        notebook = self.course.sanitized(student)
        before = {c.id: c for c in nbformat.reads(entry["result"]["notebook"], as_version=4).cells}
        for cell in notebook.cells:
            if cell.cell_type == "code" and (old := before.get(cell.id)) and old.cell_type == "code":
                cell.outputs, cell.execution_count = old.outputs, old.execution_count
        return entry, notebook

    def judge(self, judge_pool: JudgePool, exercise: str, entry: dict, notebook: NotebookNode) -> dict:
        """The entry with a new verdict on the exercise."""
        result = entry["result"]
        # the seed that it was graded with, which an older release may have made in another way
        seed = result["record"].get("seed") or seed_of(self.journal.header["seed"], notebook)
        report = judge_pool.judge(json.dumps(notebook), seed, [exercise])
        result["verdicts"][exercise] = report["verdicts"][exercise]
        if result["record"] and report["record"]:
            result["record"] = report["record"] | {"verdicts": result["verdicts"]}
        result["notebook"] = nbformat.writes(notebook)
        return entry

    def settle(self, student: str, entry: dict, exercise: str) -> None:
        """Enter a student's new points in the journal and the gradebook."""
        looked_at = self._waiting(student)
        executed = self.books.mark(student, entry["result"])
        self.books.put(student, entry["submitted"], entry["result"])
        self.books.record(student, executed, entry["result"])
        check = next(c.id for c in executed.cells if is_check(c) and exercise_of(c.source) == exercise)
        self._keep_waiting(student, looked_at, check)

    def _waiting(self, student: str) -> dict[str, bool]:
        """For each cell, whether a person must grade it."""
        with self.course.api.gradebook as book:
            submission = book.find_submission(self.course.unit, student)
            return {g.name: g.needs_manual_grade for n in submission.notebooks for g in n.grades}

    def _keep_waiting(self, student: str, before: dict[str, bool], changed: str) -> None:
        """nbgrader asks for a second look at all points that a person gave; only those of `changed` need one."""
        with self.course.api.gradebook as book:
            submission = book.find_submission(self.course.unit, student)
            for grade in (g for n in submission.notebooks for g in n.grades):
                if grade.name != changed and grade.name in before:
                    grade.needs_manual_grade = before[grade.name]
            book.db.commit()


def regrade(
    out: Path,
    only: str,
    workers: int | None = None,
    say: Callable[[str], None] = lambda line: None,
    solutions: Path = ROOT / "solutions",
) -> ClassResults:
    """Judge the exercise `only` of everyone in `out` again, and update gradebook, feedback and results.

    Raises NoRegrade, and what grading raises: NoResults, JournalError, GradebookError, BuildError, DiskFull.
    """
    results = report.read(out)
    with contextlib.closing(Journal(out / "journal")) as journal:
        if journal.header is None or not journal.header["finished"]:
            raise NoRegrade(f"The run in {out} is not finished: continue it with `grade --resume`.")
        if journal.header["mode"] != "judge":
            raise NoRegrade(
                "These points come from the notebooks (--trust-notebooks); only the judge's can be recomputed."
            )
        again = Regrade(out, journal, results)
        exercise = again.begin(only, solutions)
        judge_pool, changed, students = JudgePool(), 0, list(again.students)
        workers = workers_here(workers, gpus=1)  # its one panel uses no more
        with ThreadPoolExecutor(workers) as pool:
            # A few at a time: nbgrader reads and writes in this thread only, and a class would fill the memory.
            for first in range(0, len(students), 2 * workers):
                some = {s: found for s in students[first : first + 2 * workers] if (found := again.prepared(s))}
                judging = {s: pool.submit(again.judge, judge_pool, exercise, *found) for s, found in some.items()}
                for student, judged in judging.items():
                    before = again.students[student].marks
                    again.settle(student, judged.result(), exercise)
                    after = again.students[student].marks
                    if after != before:
                        changed += 1
                        say(f"{student}: {before:g} → {after:g}")
        late.enter(again.course, results.students)
        again.course.feedback()
    results.checks = again.checks
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    results.notes.append(f"{only} was graded again on {when}; the points of {changed} students changed.")
    results.findings = None
    return results


def add_arguments(parser) -> None:
    parser.add_argument("out", type=Path, metavar="OUT", help="a folder with a graded class")
    parser.add_argument("--only", required=True, metavar="EXERCISE", help="the exercise whose test was fixed")
    parser.add_argument(
        "--workers", type=int, metavar="N", help="submissions at a time; default: one per core, at most 8"
    )


def main(args) -> int:
    try:
        results = regrade(args.out, args.only, args.workers, print)
        report.write(results, args.out)
    except (NoRegrade, report.NoResults, JournalError, GradebookError, BuildError) as problem:
        print(problem)
        return 1
    except DiskFull as where:
        print(f"The disk is full: {where}. All results so far are saved; the same command does the rest.")
        return 1
    print(results.notes[-1])
    return 0
