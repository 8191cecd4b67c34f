"""From a verdict to points: the two functions that compute all points.

`judged` takes the judge's verdict. `marks_of` reads what an executed check cell shows. That output comes from the
student's own process, so it is used only for tests without `lab.check`, and for a course that trusts its students.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nbformat import NotebookNode

from grader.course.cells import exercise_of
from labutils import exercises
from labutils.check.check import VERDICT_MIME
from labutils.spec.verdict import Verdict

# nbgrader gives full marks for anything that is no number, NaN and `np.float64(0.0)` included; we give none.
_PLAIN_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?(e[+-]?[0-9]+)?")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True)
class Result:
    """The points of one check cell, the verdict behind them, and a sentence for people."""

    marks: float
    verdict: Verdict | None
    sentence: str


def judged(verdict: Verdict, points: float) -> Result:
    """The points of a verdict that was reached outside the student's process."""
    marks = min(max(0.0, verdict.marks), points)
    return Result(marks, verdict, _told(verdict, marks, points))


def marks_of(cell: NotebookNode) -> Result:
    """The points of an executed check cell. All of `cell` is trusted except its outputs."""
    points = float(cell.metadata.nbgrader.points)
    verdict = _verdict(cell)
    if error := next((o for o in cell.outputs if o.output_type == "error"), None):
        return Result(0.0, verdict, _stopped(verdict, error))
    shown = [o.data.get("text/plain", "") for o in cell.outputs if o.output_type == "execute_result"]
    if not shown:
        return Result(0.0, verdict, "The check cell ended without showing points.")
    text = "".join(shown[-1]).strip()
    if not _PLAIN_NUMBER.fullmatch(text):
        return Result(0.0, verdict, f"The check cell showed {_short(text)!r}, which is not a plain number of points.")
    marks = float(text)
    if marks > points:
        return Result(0.0, verdict, f"The check cell showed {marks:g} of {points:g} points, which is impossible.")
    exercise_id = exercise_of(cell.source)
    if exercise_id not in exercises.all_exercises():
        return Result(marks, None, f"{marks:g} of {points:g} points.")
    if verdict is None or verdict.exercise != exercise_id:
        return Result(0.0, None, "The check cell showed points without a verdict of lab.check.")
    awarded = exercises.get(exercise_id).points.award(verdict)
    if awarded != marks:
        return Result(0.0, verdict, f"The check cell showed {marks:g} points, but its verdict is worth {awarded:g}.")
    return Result(marks, verdict, _told(verdict, marks, points))


def _verdict(cell: NotebookNode) -> Verdict | None:
    """The last verdict among the outputs, unless it is malformed."""
    published = [o.data[VERDICT_MIME] for o in cell.outputs if VERDICT_MIME in o.get("data", {})]
    try:
        verdict = Verdict.from_json(published[-1])
        diagnoses = [verdict.headline, *(r.diagnosis for r in verdict.results)]
        texts = [verdict.exercise, verdict.backend, verdict.printed, *verdict.notes, *(r.case for r in verdict.results)]
        texts += [text for d in diagnoses if d for text in (d.kind, d.symptom, d.advice, d.details)]
        verdict.text()  # what cannot be shown is no verdict
        return verdict if all(isinstance(text, str) for text in texts) else None
    except (IndexError, TypeError, KeyError, AttributeError, ValueError):
        return None


def _told(verdict: Verdict, marks: float, points: float) -> str:
    if verdict.headline is None:
        still = f", {verdict.open:g} still open because they need a GPU" if verdict.open else ""
        return f"{marks:g} of {points:g} points{still}."
    return f"{verdict.headline.symptom.rstrip('.')}. {verdict.headline.advice}"


def _stopped(verdict: Verdict | None, error: NotebookNode) -> str:
    if verdict is not None and verdict.unfilled:
        return verdict.headline.symptom
    if error.ename in ("KernelDied", "CellTimeout"):
        return sentence(error.evalue)
    return sentence(f"The check stopped with {error.ename}: {_short(error.evalue)}")


def sentence(text: str) -> str:
    """The text with a capital letter and a period."""
    text = text.strip()
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else text + "."


def _short(text: str, most: int = 120) -> str:
    text = " ".join(_ANSI.sub("", text).split())
    return text if len(text) <= most else text[:most] + " …"
