"""From an engine's result to a student's results: for each check the points, the kind of failure, a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nbformat import NotebookNode
from nbformat.v4 import new_output

from grader.execute.notebook import KERNEL_DIED, is_check
from grader.intake.collect import Submission
from grader.marks.marks import Result, exercise_of, judged
from grader.marks.results import Check, Graded, Outcome
from labutils import exercises
from labutils.spec.verdict import Verdict

Marker = Callable[[NotebookNode], Result]
"""The points of an executed check cell without a verdict of the judge."""


def checks_of(release: NotebookNode) -> list[Check]:
    found = []
    for cell in release.cells:
        if is_check(cell):
            exercise_id = exercise_of(cell.source)
            known = exercises.all_exercises().get(exercise_id)
            name = exercise_id.split("/")[-1] if exercise_id else cell.id
            found.append(Check(name, known.title if known else name, cell.id, float(cell.metadata.nbgrader.points)))
    return found


def exercises_of(release: NotebookNode) -> list[str]:
    """The exercises that the release checks."""
    found = [exercise_of(cell.source) for cell in release.cells if is_check(cell)]
    return [i for i in found if i in exercises.all_exercises()]


def is_manual(cell: NotebookNode) -> bool:
    grading = cell.metadata.get("nbgrader", {})
    return bool(grading.get("task") or grading.get("grade") and grading.get("solution"))


def not_yet(submission: Submission, checks: list[Check]) -> Graded:
    """A student before grading: 0 points, and the reason if that is final."""
    student = Graded(submission.student, [], submission.repairs, problem=submission.problem, origin=submission.origin)
    return ungraded(student, checks)


def ungraded(student: Graded, checks: list[Check]) -> Graded:
    """The student with 0 points in all checks."""
    why = student.problem or "Not graded."
    student.outcomes = [Outcome(c.name, c.cell, 0.0, c.points, "not graded", why) for c in checks]
    return student


def mark(student: Graded, executed: NotebookNode, log: dict, verdicts: dict[str, Verdict], marker: Marker) -> None:
    student.events, student.seconds = list(log["events"]), log["seconds"]
    checks = {cell.id: cell for cell in executed.cells if is_check(cell)}
    names = {o.cell: o.name for o in student.outcomes}
    student.outcomes = []
    for cell_id, cell in checks.items():
        points, verdict = float(cell.metadata.nbgrader.points), verdicts.get(exercise_of(cell.source))
        if verdict is not None:
            cell.outputs = [new_output("stream", name="stdout", text=verdict.text() + "\n")]
            result = judged(verdict, points)
        else:
            result = marker(cell)
        kind, name = _kind(cell, result, points), names.get(cell_id, cell_id)
        student.outcomes.append(Outcome(name, cell_id, result.marks, points, kind, result.sentence, result.verdict))
    shown = [o for cell in executed.cells if cell.cell_type == "code" for o in cell.outputs]
    if any(o.output_type == "stream" and o.name == "stderr" for o in shown):
        student.events.append("Wrote to stderr, which does not affect the points.")


def _kind(cell: NotebookNode, result: Result, points: float) -> str:
    if result.marks >= points:
        return ""
    if result.verdict is not None and result.verdict.headline is not None:
        return result.verdict.headline.kind
    if result.verdict is not None and result.verdict.passed:
        return "open" if result.verdict.open else "not full points"
    error = next((o for o in cell.outputs if o.output_type == "error"), None)
    if error is None:
        return "no valid points"
    return {KERNEL_DIED: "kernel-died", "CellTimeout": "timeout"}.get(error.ename, error.ename)


def device_of(students: Iterable[Graded]) -> str:
    """What the kernels ran on, in the words of the verdicts."""
    found = [o.verdict.backend for s in students for o in s.outcomes if o.verdict and o.verdict.results]
    kernels = [backend for backend in found if backend != "plain Python"]
    backends = kernels or found or ["nothing ran"]
    return max(dict.fromkeys(backends), key=backends.count)  # of two that are as frequent the first, in every process
