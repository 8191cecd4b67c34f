"""nbgrader's side of grading: its release, sanitizing, gradebook and feedback, all unmodified.

nbgrader autogrades in three steps: sanitize, execute, save. Only the second takes long. It needs neither the gradebook
nor the course's folders, so it runs elsewhere (`grader.execute`). This module inserts the executed notebook after
checking that every source in it is unchanged.
"""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import sqlite3
from collections.abc import Collection
from pathlib import Path

import nbformat
from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbformat.v4 import new_output
from traitlets.config import Config

from grader.course.nbgrader_config import (
    Autograde,
    Execute,
    MissingEntry,
    NbGraderAPI,
    NbGraderPreprocessor,
    course_config,
)
from grader.course.sources import notebook_bytes
from grader.course.stubs import release_preprocessors
from grader.gradebook.journal import DiskFull
from grader.gradebook.nbgrader_pages import PageExporter
from grader.gradebook.waiting import Waiting
from grader.marks.marks import Result
from labutils.check.check import VERDICT_MIME

_FULL = ("No space left on device", "database or disk is full", "Disk quota exceeded", "File too large")


Marks = dict[str, dict[str, float | None]]
"""The points of each student's graded cells in a gradebook; None where a person must grade."""


class GradebookError(Exception):
    """What nbgrader could not do, in one sentence."""


class Course:
    """One unit in a course folder of nbgrader's: `source`, `release`, `submitted`, `autograded`, `feedback`."""

    def __init__(self, folder: Path, unit: str):
        self.folder, self.unit = folder.resolve(), unit
        self.folder.mkdir(parents=True, exist_ok=True)
        self._executed: dict[str, NotebookNode] = {}
        self._sanitized = Waiting(self.folder)
        config = course_config(self.folder)
        config.Exporter.optimistic_validation = True  # once for all preprocessors
        config.GenerateAssignment.preprocessors = release_preprocessors()
        config.GenerateFeedback.exporter_class = PageExporter
        stock = {name: Autograde.class_traits()[name].default() for name in _STEPS}
        config.Autograde.sanitize_preprocessors = [_once(self._sanitized, stock["sanitize_preprocessors"])]
        config.Autograde.autograde_preprocessors = [
            _inject(self._executed) if step is Execute else step for step in stock["autograde_preprocessors"]
        ]
        self.api = NbGraderAPI(config=config)
        # What nbgrader warns about is mended and reported before it sees a notebook.
        logging.getLogger("traitlets").setLevel(logging.ERROR)

    def release(self, source: NotebookNode) -> NotebookNode:
        """Enter the unit into the gradebook; returns the released notebook."""
        path = self.folder / "source" / self.unit / f"{self.unit}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(notebook_bytes(source))
        _succeed(self.api.generate_assignment(self.unit), "make the release")
        return nbformat.read(self.folder / "release" / self.unit / f"{self.unit}.ipynb", as_version=4)

    def submitted(self, student: str) -> Path:
        """Where nbgrader looks for a student's notebook."""
        return self.folder / "submitted" / student / self.unit / f"{self.unit}.ipynb"

    def laid_out(self) -> set[str]:
        """Everyone whose notebook is there."""
        return {path.parts[-3] for path in self.folder.glob(f"submitted/*/{self.unit}/{self.unit}.ipynb")}

    def sanitized(self, student: str) -> NotebookNode:
        """A submitted notebook with the graded cells' own text, hidden tests included, and without outputs."""
        coursedir = self.api.coursedir
        path = coursedir.format_path(coursedir.submitted_directory, student, self.unit)
        before = coursedir.assignment_id, coursedir.student_id
        self._sanitized.drop(student)
        coursedir.assignment_id, coursedir.student_id = self.unit, student
        try:
            steps = Autograde(coursedir=coursedir, parent=self.api)
            exporter = NotebookExporter(config=Config({"Exporter": {"default_preprocessors": []}}))
            for step in steps.sanitize_preprocessors:
                exporter.register_preprocessor(step)
            file = str(Path(path, f"{self.unit}.ipynb"))
            text, _ = exporter.from_filename(file, resources=steps.init_single_notebook_resources(file))
        finally:
            coursedir.assignment_id, coursedir.student_id = before
        self._sanitized.put(student, text)
        return nbformat.reads(text, as_version=4)

    def record(self, student: str, executed: NotebookNode, results: dict[str, Result]) -> None:
        """Autograde with what was executed elsewhere; `results` gives the points of each check by cell id."""
        for cell in executed.cells:
            if cell.id in results:
                cell.outputs = _outputs_for(cell, results[cell.id])
        self._executed[student] = executed
        self.drop_feedback(student)
        try:
            _succeed(self.api.autograde(self.unit, student), f"record the points of {student}")
        finally:
            self._executed.pop(student, None)
            self._sanitized.drop(student)

    def record_nothing(self, student: str, book: Marks) -> None:
        """Enter a student whose submission cannot be graded, with 0 points, if the gradebook, read before with `marks`,
        has anything else: everyone is in it."""
        for made in ("autograded", "feedback"):  # of an earlier run
            shutil.rmtree(self.folder / made / student / self.unit, ignore_errors=True)
        if student in book and not any(book[student].values()) and None not in book[student].values():
            return
        with self.api.gradebook as book:
            book.update_or_create_student(student)
            submission = book.update_or_create_submission(self.unit, student)
            for grade in (grade for notebook in submission.notebooks for grade in notebook.grades):
                grade.auto_score, grade.needs_manual_grade = 0, False
            book.db.commit()

    def remove(self, student: str) -> None:
        """Remove a student's submission, with the points that a person gave."""
        for made in ("submitted", "autograded", "feedback"):
            shutil.rmtree(self.folder / made / student / self.unit, ignore_errors=True)
        with self.api.gradebook as book, contextlib.suppress(MissingEntry):
            book.remove_submission(self.unit, student)

    def waiting(self) -> int:
        """How many students have an answer that a person must grade. Raises GradebookError."""
        try:
            with contextlib.closing(sqlite3.connect(f"file:{self.folder}/gradebook.db?mode=ro", uri=True)) as book:
                return book.execute(_WAITING, (self.unit,)).fetchone()[0]
        except sqlite3.Error as problem:
            raise GradebookError(f"The gradebook cannot be read: {problem}.") from None

    def looked_at(self, student: str) -> set[str]:
        """The cells of a student that wait for nobody."""
        with self.api.gradebook as book, contextlib.suppress(MissingEntry):
            submission = book.find_submission(self.unit, student)
            return {g.name for n in submission.notebooks for g in n.grades if not g.needs_manual_grade}
        return set()

    def keep_looked_at(self, student: str, cells: Collection[str]) -> None:
        """nbgrader asks for a second look at all points that a person gave when a submission is graded again; `cells`
        need none."""
        if cells:
            with self.api.gradebook as book:
                submission = book.find_submission(self.unit, student)
                for grade in (g for n in submission.notebooks for g in n.grades if g.name in cells):
                    grade.needs_manual_grade = False
                book.db.commit()

    def scores(self) -> dict[str, float]:
        """Each student's score of this unit in the gradebook."""
        with self.api.gradebook as book:
            return {s.student_id: float(s.score) for s in book.assignment_submissions(self.unit)}

    def marks(self) -> Marks:
        """Everyone's points in the gradebook."""
        found: Marks = {}
        try:
            with contextlib.closing(sqlite3.connect(f"file:{self.folder}/gradebook.db?mode=ro", uri=True)) as book:
                for student, cell, marks, waiting in book.execute(_MARKS, (self.unit,)):
                    cells = found.setdefault(student, {})
                    if cell is not None:
                        cells[cell] = None if waiting else marks
        except sqlite3.Error as problem:
            raise GradebookError(f"The gradebook cannot be read: {problem}.") from None
        return found

    def has(self, student: str, expected: dict[str, float], book: Marks) -> bool:
        """Whether the gradebook, read before with `marks`, and nbgrader's folders contain what was graded."""
        path = self.folder / "autograded" / student / self.unit / f"{self.unit}.ipynb"
        try:
            json.loads(path.read_bytes())
        except (OSError, ValueError):
            return False
        return student in book and not _differences(expected, book[student])

    def problems(self, expected: dict[str, dict[str, float]]) -> list[str]:
        """Errors in the gradebook, and differences from these points (student, cell), as sentences."""
        try:
            with contextlib.closing(sqlite3.connect(f"file:{self.folder}/gradebook.db?mode=ro", uri=True)) as book:
                messages = [row[0] for row in book.execute("PRAGMA integrity_check")]
                # nbgrader itself leaves an assignment whose course is not entered
                orphans = [r for r in book.execute("PRAGMA foreign_key_check") if r[0] not in ("assignment", "course")]
                twice = [row[0] for row in book.execute(_TWICE, (self.unit,))]
            marks = self.marks()
        except sqlite3.Error as problem:
            return [f"The gradebook cannot be read: {problem}."]
        except GradebookError as problem:
            return [str(problem)]
        found = [f"SQLite reports for the gradebook: {line}." for line in messages if line != "ok"]
        found += [f"The gradebook has {len(orphans)} orphaned rows."] * bool(orphans)
        found += [f"{student} is in the gradebook more than once." for student in twice]
        found += [f"{student} is not in the gradebook." for student in sorted(expected.keys() - marks.keys())]
        found += [f"{s} is in the gradebook, but not in the journal." for s in sorted(marks.keys() - expected.keys())]
        for student in sorted(expected.keys() & marks.keys()):
            found += [f"{student}, {message}." for message in _differences(expected[student], marks[student])]
        return found

    def feedback(self, student: str | None = None) -> None:
        """nbgrader's feedback, a page for each student that was graded: for one, or for those without a whole one."""
        lacking = self.without_feedback() if student is None else [student]
        for one in lacking:
            self.drop_feedback(one)
        if lacking:
            _succeed(self.api.generate_feedback(self.unit, student, force=False), "write the feedback")

    def without_feedback(self) -> list[str]:
        """Students who were graded and have no whole page of nbgrader's feedback: a run that was killed may leave half
        of one."""
        graded = (path.parts[-3] for path in self.folder.glob(f"autograded/*/{self.unit}/{self.unit}.ipynb"))
        return sorted(s for s in graded if not _ends_as_html(self.page(s)))

    def drop_feedback(self, student: str) -> None:
        """Of other points than the present ones."""
        shutil.rmtree(self.page(student).parent, ignore_errors=True)

    def page(self, student: str) -> Path:
        """nbgrader's feedback to a student."""
        return self.folder / "feedback" / student / self.unit / f"{self.unit}.html"


_MARKS = """
SELECT sa.student_id, cell.name, coalesce(grade.auto_score, 0), grade.auto_score IS NULL AND grade.needs_manual_grade
FROM submitted_assignment sa JOIN assignment ON assignment.id = sa.assignment_id AND assignment.name = ?
LEFT JOIN submitted_notebook sn ON sn.assignment_id = sa.id LEFT JOIN grade ON grade.notebook_id = sn.id
LEFT JOIN base_cell cell ON cell.id = grade.cell_id
"""

_WAITING = """
SELECT count(DISTINCT sa.id) FROM submitted_assignment sa
JOIN assignment ON assignment.id = sa.assignment_id AND assignment.name = ?
JOIN submitted_notebook sn ON sn.assignment_id = sa.id JOIN grade ON grade.notebook_id = sn.id
WHERE grade.needs_manual_grade
"""

_TWICE = """
SELECT sa.student_id FROM submitted_assignment sa JOIN assignment ON assignment.id = sa.assignment_id
WHERE assignment.name = ? GROUP BY sa.student_id HAVING count(*) > 1
"""


def _ends_as_html(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 200))
            return b"</html>" in file.read()
    except OSError:
        return False


def _differences(expected: dict[str, float], marks: dict[str, float | None]) -> list[str]:
    """Differences between the gradebook's points and the expected ones; {} means a student without points."""
    if not expected:
        return [f"{cell}: {mark:g} in the gradebook, but nothing was graded" for cell, mark in marks.items() if mark]
    return [
        f"{cell}: {marks.get(cell)} in the gradebook, {mark:g} in the journal"
        for cell, mark in expected.items()
        if (got := marks.get(cell)) is None or abs(got - mark) > 1e-9
    ]


def _succeed(result: dict, what: str) -> None:
    if not result["success"]:
        lines = (result.get("log") or result.get("error") or "").strip().splitlines()
        reason = next(
            (line for line in reversed(lines) if "Error: " in line), lines[-1] if lines else "no reason given"
        )
        if any(words in str(lines) for words in _FULL):
            raise DiskFull(f"the gradebook or its folders (nbgrader could not {what})")
        raise GradebookError(f"nbgrader cannot {what}: {reason.strip()}")


_STEPS = ("sanitize_preprocessors", "autograde_preprocessors")
"""The two halves of nbgrader's Autograde."""


def _once(sanitized: Waiting, steps: list[type[NbGraderPreprocessor]]) -> type[NbGraderPreprocessor]:
    """A preprocessor that does what nbgrader's own `steps` do, or takes what they made of this submission before."""

    class Sanitize(NbGraderPreprocessor):
        def preprocess(self, nb, resources):
            if before := sanitized.get(resources["nbgrader"]["student"]):
                return nbformat.reads(before, as_version=4), resources
            for step in steps:
                nb, resources = step(parent=self.parent)(nb, resources)
            return nb, resources

    return Sanitize


def _inject(executed: dict[str, NotebookNode]) -> type[NbGraderPreprocessor]:
    """A preprocessor in the place of nbgrader's Execute: it puts in the outputs of a notebook that ran elsewhere."""

    class InjectOutputs(NbGraderPreprocessor):
        def preprocess(self, nb, resources):
            done = executed[resources["nbgrader"]["student"]]
            if len(done.cells) != len(nb.cells):
                raise ValueError("the executed notebook has a different number of cells")
            for cell, other in zip(nb.cells, done.cells, strict=True):
                if (cell.cell_type, cell.source) != (other.cell_type, other.source) or cell.metadata.get(
                    "nbgrader"
                ) != other.metadata.get("nbgrader"):
                    raise ValueError(f"the executed notebook has a different cell {cell.get('id')!r}")
                if cell.cell_type == "code":
                    cell.outputs, cell.execution_count = other.outputs, other.execution_count
            return nb, resources

    return InjectOutputs


def _outputs_for(cell: NotebookNode, result: Result) -> list[NotebookNode]:
    """The outputs of a check from which nbgrader reads the points of `result`, and nothing else.

    nbgrader gives 0 points if there is a line on stderr, even a harmless warning, and all points for a result that is
    not a number. So stderr is shown as ordinary output, and the only result is the points.
    """
    kept = []
    for output in cell.outputs:
        if output.output_type == "execute_result" or VERDICT_MIME in output.get("data", {}):
            continue
        if output.output_type == "error" and result.marks > 0:
            continue
        if output.output_type == "stream":
            output = new_output("stream", name="stdout", text=output.text)
        kept.append(output)
    if result.sentence not in str(kept):
        kept.append(new_output("stream", name="stdout", text=f"\nGraded: {result.sentence}\n"))
    marks = {"text/plain": repr(float(result.marks))}
    kept.append(new_output("execute_result", data=marks, execution_count=cell.execution_count))
    return kept
