"""Grade a class: submissions in, nbgrader's grade book, feedback, a report and tables out.

    python -m grader grade UNIT --submissions DIR

Collect and mend → sanitize (nbgrader) → execute and judge, several at a time → record (nbgrader) → feedback, report,
exports. A submission that fails at any step costs its own marks, is said in one sentence, and stops nobody else.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_output

from grader.build import ROOT, source_notebook, unit_names
from grader.collect import Submission, collect, lay_out
from grader.execute.local import Executed, draw_seed, run_all
from grader.execute.notebook import KERNEL_DIED, Limits, is_check
from grader.gradebook import Course, GradebookError
from grader.judge import sandbox
from grader.judge.bench import Bench
from grader.marks import Result, exercise_of, judged, marks_of, sentence
from grader.regions import BuildError
from grader.results import Check, ClassResults, Graded, Outcome
from labutils import exercise as exercises
from labutils.verdict import Verdict

MOST_WORKERS = 8
"""Notebooks at a time, unless more are asked for: each takes about 1 GB of memory, and on a GPU a context."""

Marker = Callable[[NotebookNode], Result]


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


def grade(
    unit: Path,
    submissions: Path,
    out: Path,
    *,
    seed: int | None = None,
    workers: int | None = None,
    limits: Limits | None = None,
    marker: Marker | None = None,
    progress: Callable[[int, int, str], None] = lambda done, total, student: None,
    clock: Clock | None = None,
) -> ClassResults:
    """Grade every submission of the unit in the folder `unit`; the course folder and the exports are made in `out`.

    The marks of an exercise come from the judge. `marker` takes its place: it turns an executed check cell into marks,
    as `marks_of` does for a course that trusts what its students' notebooks show.
    """
    clock, begin = clock or Clock(), time.perf_counter()
    course = Course(out / "course", unit.name)
    release = course.release(source_notebook(unit))
    clock.step("release")
    handed_in = collect(submissions, unit.name, release)
    lay_out(handed_in, course.folder, unit.name)
    clock.step("collect and mend")
    checks = _checks(release)
    seed = draw_seed() if seed is None else seed
    students = {s.student: _not_yet(s, checks) for s in handed_in}
    jobs = _sanitize(course, handed_in, students)
    before = _seconds_before(out)
    jobs.sort(key=lambda job: -before.get(job[0], float("inf")))
    clock.step("sanitize")
    done, workers = len(students) - len(jobs), workers or min(os.cpu_count() or 2, MOST_WORKERS)
    with Bench(seed, workers, _exercises(release)) if marker is None else contextlib.nullcontext() as judges:
        if judges:
            judges.judge_all(jobs)
        for executed in run_all(jobs, seed, workers, limits, judged=judges is not None):
            clock.step("execute")
            student = students[executed.key]
            verdicts = judges.verdicts(executed.key) if judges else {}
            clock.step("judge")
            _mark(student, executed, verdicts, marker or marks_of)
            if judges:
                _write_record(out / "records", executed.key, judges.record(executed.key))
            _record(course, student, executed)
            done += 1
            progress(done, len(students), executed.key)
            clock.step("record")
    for student in students.values():
        if student.problem:
            course.record_nothing(student.student)
    clock.step("record")
    notes = [said] if marker is None and (said := sandbox.warning()) else []
    try:
        course.feedback()
    except GradebookError as problem:  # the marks are in; the reports need no feedback pages
        notes.append(sentence(str(problem)))
    clock.step("feedback")
    return ClassResults(
        unit=unit.name,
        title=release.cells[0].source.split("\n", 1)[0].lstrip("# "),
        checks=checks,
        students=list(students.values()),
        device=_device(students.values()),
        seed=seed,
        when=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        seconds=round(time.perf_counter() - begin, 1),
        notes=notes,
        manual=sum(c.metadata.nbgrader.points for c in release.cells if _is_manual(c)),
    )


def _checks(release: NotebookNode) -> list[Check]:
    found = []
    for cell in release.cells:
        if is_check(cell):
            exercise_id = exercise_of(cell.source)
            known = exercises.all_exercises().get(exercise_id)
            name = exercise_id.split("/")[-1] if exercise_id else cell.id
            found.append(Check(name, known.title if known else name, cell.id, float(cell.metadata.nbgrader.points)))
    return found


def _exercises(release: NotebookNode) -> list[str]:
    """The exercises that the release checks."""
    found = [exercise_of(cell.source) for cell in release.cells if is_check(cell)]
    return [i for i in found if i in exercises.all_exercises()]


def _is_manual(cell: NotebookNode) -> bool:
    grading = cell.metadata.get("nbgrader", {})
    return bool(grading.get("task") or grading.get("grade") and grading.get("solution"))


def _not_yet(submission: Submission, checks: list[Check]) -> Graded:
    """A student before grading: no marks, and the reason if that is final."""
    why = submission.problem or "Not graded."
    outcomes = [Outcome(c.name, c.cell, 0.0, c.points, "not graded", why) for c in checks]
    return Graded(submission.student, outcomes, submission.repairs, problem=submission.problem)


def _sanitize(course: Course, handed_in: list[Submission], students: dict[str, Graded]):
    jobs = []
    for submission in handed_in:
        if submission.notebook is None:
            continue
        try:
            jobs.append((submission.student, course.sanitized(submission.student)))
        except Exception as problem:  # nbgrader's, for a notebook in a state that nobody thought of
            students[submission.student].problem = sentence(
                f"Not graded, 0 points: nbgrader cannot read it ({problem})"
            )
    return jobs


def _seconds_before(out: Path) -> dict[str, float]:
    """How long each student's notebook took in an earlier run into the same folder."""
    try:
        students = json.loads((out / "grades.json").read_text(encoding="utf-8"))["students"]
        return {s["student"]: float(s["seconds"]) for s in students}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _mark(student: Graded, executed: Executed, verdicts: dict[str, Verdict], marker: Marker) -> None:
    student.events, student.seconds = executed.log.events, executed.log.seconds
    if executed.notebook is None:
        student.problem = sentence(f"Not graded, 0 points: {executed.problem}")
        return
    checks = {cell.id: cell for cell in executed.notebook.cells if is_check(cell)}
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
    shown = [o for cell in executed.notebook.cells if cell.cell_type == "code" for o in cell.outputs]
    if any(o.output_type == "stream" and o.name == "stderr" for o in shown):
        student.events.append("Wrote to stderr, which costs nothing.")


def _write_record(folder: Path, student: str, record: dict) -> None:
    """Keep what is needed to judge this submission again and get the same (`python -m grader judge --replay`)."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{student}.json"
    path.with_suffix(".new").write_text(json.dumps(record), encoding="utf-8")
    path.with_suffix(".new").replace(path)


def _kind(cell: NotebookNode, result: Result, points: float) -> str:
    if result.marks >= points:
        return ""
    if result.verdict is not None and result.verdict.headline is not None:
        return result.verdict.headline.kind
    if result.verdict is not None and result.verdict.passed:
        return "not full marks"
    error = next((o for o in cell.outputs if o.output_type == "error"), None)
    if error is None:
        return "no valid marks"
    return {KERNEL_DIED: "kernel-died", "CellTimeout": "timeout"}.get(error.ename, error.ename)


def _record(course: Course, student: Graded, executed: Executed) -> None:
    if executed.notebook is None:
        return
    results = {o.cell: Result(o.marks, o.verdict, o.sentence) for o in student.outcomes}
    try:
        course.record(student.student, executed.notebook, results)
    except GradebookError as problem:
        student.problem = sentence(f"Not graded, 0 points: {problem}")
        student.outcomes = [
            replace(o, marks=0.0, kind="not graded", sentence=student.problem) for o in student.outcomes
        ]


def _device(students) -> str:
    """What the kernels ran on, in the words of the verdicts."""
    found = [o.verdict.backend for s in students for o in s.outcomes if o.verdict and o.verdict.results]
    kernels = [backend for backend in found if backend != "plain Python"]
    return max(set(kernels or found or ["nothing ran"]), key=(kernels or found or ["nothing ran"]).count)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("unit", metavar="UNIT", help="the unit, such as 06_elementwise_triton")
    parser.add_argument(
        "--submissions", type=Path, required=True, metavar="DIR", help="STUDENT/*.ipynb or STUDENT.ipynb"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="grade book and reports; by default out/UNIT")
    add_common_arguments(parser)


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of every verb that grades."""
    parser.add_argument("--workers", type=int, metavar="N", help="notebooks at a time; by default one for each core")
    parser.add_argument("--seed", type=int, metavar="N", help="draw the hidden cases of an earlier run again")
    parser.add_argument(
        "--trust-notebooks", action="store_true", help="marks from the notebooks' own checks, without the judge"
    )
    parser.add_argument("--verbose", action="store_true", help="say where the time goes")


def main(args) -> int:
    from grader import terminal

    if args.unit not in unit_names(ROOT):
        print(f"There is no unit {args.unit!r}; there are {', '.join(unit_names(ROOT))}.")
        return 2
    if not args.submissions.is_dir():
        print(f"{args.submissions} is not a folder.")
        return 2
    out = args.out or ROOT / "out" / args.unit
    try:
        terminal.grade_and_report(ROOT / "solutions" / args.unit, args.submissions, out, args)
    except (BuildError, GradebookError) as problem:
        print(problem)
        return 1
    return 0
