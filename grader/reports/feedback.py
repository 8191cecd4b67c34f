"""The page that a learner gets: points, what is wrong and what to try, speed, repairs, late penalty.

It contains no test source, no seed, and no expected values beyond the few that a diagnosis shows. nbgrader's own
feedback (`course/feedback`) shows the whole notebook with the grader's comments; this page fits on a phone.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grader.gradebook.by_hand import ByHand
from grader.marks.results import Check, ClassResults, Graded, Outcome, penalty
from grader.reports import charts, pages
from labutils import exercises
from labutils.spec.verdict import Verdict

MOST_BYTES = 60_000
_DETAILS = (3000, 1000, 250, 0)


@dataclass(frozen=True)
class _Speed:
    """A chart of the speed, and its sentence."""

    chart: str
    sentence: str


@dataclass(frozen=True)
class _Total:
    """All points so far, those for written answers included where somebody graded them."""

    earned: float
    points: float
    penalty: float

    @property
    def score(self) -> float:
        return round(self.earned - self.penalty, 2)


def _total(results: ClassResults, student: Graded, hand: ByHand) -> _Total:
    graded = [answer for answer in hand.answers if not answer.waiting]
    earned = sum(hand.changed.get(o.cell, o.marks) for o in student.outcomes) + sum(a.marks for a in graded)
    return _Total(earned, results.points + sum(a.points for a in graded), penalty(earned, student.late))


def page(results: ClassResults, student: Graded, hand: ByHand | None = None) -> str:
    """A student's page, at most MOST_BYTES: where it would be longer, details are cut first. `hand` holds what people
    gave in the formgrader."""
    hand = hand or ByHand()
    total = _total(results, student, hand)
    checks = {c.cell: c for c in results.checks}
    rows = [(checks.get(o.cell) or Check(o.name, o.name, o.cell, o.points), o, speed(o)) for o in student.outcomes]
    for most in _DETAILS:
        html = pages.render("feedback.html.j2", r=results, s=student, rows=rows, most=most, hand=hand, total=total)
        if len(html.encode("utf-8", "replace")) <= MOST_BYTES:
            break
    return html


def speed(outcome: Outcome) -> _Speed | None:
    """The kernel's speed relative to the reference solution; by memory traffic if nothing was timed."""
    verdict = outcome.verdict
    if verdict is None or not verdict.passed:
        return None
    if timing := verdict.timing:
        message = (
            f"{_time(timing['yours_s'])}, {timing['ratio']:.2f} × the reference solution's "
            f"{_time(timing['reference_s'])} (95 %: {timing['low']:.2f} to {timing['high']:.2f}); "
            f"{100 * timing['of_floor']:.0f} % of what this GPU can do for the bytes and FLOPs that the task needs."
        )
        return _Speed(charts.time_beside(timing["ratio"], timing["low"], timing["high"]), message)
    slower = traffic(verdict)
    if slower is None:
        return None
    message = f"{slower:.2f} × the reference solution's memory traffic. Time is measured only on a GPU."
    return _Speed(charts.time_beside(slower, slower, slower, "memory traffic"), message)


def traffic(verdict: Verdict) -> float | None:
    """Memory traffic relative to the reference solution; None if it gives no points or was not counted."""
    exercise = exercises.all_exercises().get(verdict.exercise)
    if exercise is None or verdict.timing or not verdict.counts.get("compulsory_bytes"):
        return None
    return exercise.points.slower(verdict)


def write(results: ClassResults, folder: Path, hands: Mapping[str, ByHand] | None = None) -> None:
    """A page for each student, and nobody else's of an earlier run; `hands`: what people gave, by student."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for student in results.students:
        text = page(results, student, (hands or {}).get(student.student))
        (folder / pages.file_name(student.student)).write_text(text, encoding="utf-8", errors="replace")


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"
