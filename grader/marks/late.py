"""Handing in late: a small table says when work is due and what each day costs.

    due = 2026-11-20T23:59:00        # in time_zone, unless it names its own offset
    time_zone = "Europe/Berlin"
    grace_minutes = 15               # nothing is lost up to here; after it the whole delay counts
    per_day = 10                     # percent of the marks for each day that has begun …
    most = 50                        # … and never more than this
    steps = [[24, 10], [72, 30]]     # or instead: up to 24 hours 10 percent, up to 72 hours 30, after that `most`

    [extensions]                     # a later due time, or how much later: "36 h", "2 days"
    "Ana Duarte" = 2026-11-22T23:59:00
    "ben" = "2 days"

    [handed_in]                      # the truth, where a platform's time is wrong
    "Chiara Lombardi" = 2026-11-20T22:10:00

Times come from nbgrader's timestamp, Gradescope's, the zip's or the file's; the sentence says which. Canvas says LATE
itself and knows its own extensions, so its word decides whether a submission is late, and the time by how much.
"""

from __future__ import annotations

import math
import re
import tomllib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from grader.marks.results import Graded, Lateness, Origin, penalty

_KNOWN = {"due", "time_zone", "grace_minutes", "per_day", "most", "steps", "extensions", "handed_in"}
_LATER = re.compile(r"(\d+(?:\.\d+)?)\s*(min|minutes?|h|hours?|d|days?)", re.IGNORECASE)


class LateError(Exception):
    """A table of late rules that cannot be understood; the message says where."""


@dataclass(frozen=True)
class Rules:
    """When a unit is due and what handing it in later costs, in percent of what was earned."""

    due: datetime
    zone: ZoneInfo
    grace: timedelta = timedelta()
    per_day: float = 0.0
    most: float = 100.0
    steps: tuple[tuple[float, float], ...] = ()
    extensions: dict[str, datetime | timedelta] = field(default_factory=dict)
    handed_in: dict[str, datetime] = field(default_factory=dict)

    @staticmethod
    def read(path: Path) -> Rules:
        """The rules in a TOML file. Raises LateError."""
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
            raise LateError(f"{path.name}: {problem}") from None
        if unknown := set(table) - _KNOWN:
            raise LateError(f"{path.name}: no rule is called {', '.join(sorted(unknown))}")
        try:
            zone = ZoneInfo(table.get("time_zone", "UTC"))
            steps = tuple(sorted((float(h), _percent(p)) for h, p in table.get("steps", [])))
            return Rules(
                due=_time(table["due"], zone),
                zone=zone,
                grace=timedelta(minutes=float(table.get("grace_minutes", 0))),
                per_day=_percent(table.get("per_day", 0)),
                most=_percent(table.get("most", 100)),
                steps=steps,
                extensions={k: _extension(v, zone) for k, v in table.get("extensions", {}).items()},
                handed_in={k: _time(v, zone) for k, v in table.get("handed_in", {}).items()},
            )
        except (TypeError, ValueError, AttributeError, ZoneInfoNotFoundError) as problem:
            raise LateError(f"{path.name}: {problem}") from None
        except KeyError:
            raise LateError(f"{path.name}: it does not say when the unit is due") from None

    def due_for(self, student: str) -> datetime:
        """A student's due time, any extension included."""
        later = self.extensions.get(student, timedelta())
        return later if isinstance(later, datetime) else self.due + later

    def of(self, student: str, origin: Origin | None) -> Lateness | None:
        """What handing in late costs this student; None for who was in time. Nobody pays for a time nobody knows."""
        origin, due = origin or Origin(), self.due_for(student)
        when, clock = self.time_of(student, origin)
        corrected = student in self.handed_in
        if origin.marked_late is False and not corrected:
            return None
        # in UTC: two times of one zone are subtracted as its clocks show them, which is wrong by an hour in some nights
        late = when.astimezone(UTC) - due.astimezone(UTC) if when else timedelta()
        if origin.marked_late and not corrected and student not in self.extensions:
            if late <= timedelta():
                late, clock = timedelta(seconds=1), f"{origin.system.capitalize()}'s mark; the time is not known"
        elif late <= self.grace:
            return None
        share = self.percent(late)
        stood = f" on {when.astimezone(self.zone):%Y-%m-%d %H:%M %Z}" if when and when > due else ""
        cost = f"{share:g} % of the marks are taken off" if share else "nothing is taken off"
        message = f"Handed in{stood}, {_long(late)} late ({clock}): {cost}."
        return Lateness(share, message, due.astimezone(UTC).isoformat())

    def percent(self, late: timedelta) -> float:
        """What a delay costs, in percent."""
        if self.steps:
            hours = late.total_seconds() / 3600
            return next((share for limit, share in self.steps if hours <= limit), self.most)
        return min(self.most, self.per_day * math.ceil(late / timedelta(days=1)))

    def time_of(self, student: str, origin: Origin) -> tuple[datetime | None, str]:
        """When a student handed in, if that is known, and who says so."""
        if student in self.handed_in:
            return self.handed_in[student], "the table's time"
        if not origin.handed_in:
            return None, "no time is known"
        when = datetime.fromisoformat(origin.handed_in)
        return when.replace(tzinfo=when.tzinfo or self.zone), origin.clock


def apply(rules: Rules | None, students: list[Graded]) -> None:
    """Say of each student what handing in late costs."""
    for student in students:
        student.late = rules.of(student.student, student.origin) if rules and not student.problem else None


def enter(course, students: list[Graded], rules: Rules | None = None) -> None:
    """Enter due times, hand-in times and penalties into nbgrader's grade book, where its feedback and export use them.

    nbgrader would compute a penalty while it autogrades, before a person gave marks for written answers. It is a share
    of all marks, so it is entered here, after grading and again before each export, in the same column.
    """
    graded, known = {s.student: s for s in students}, rules or Rules(datetime.now(UTC), ZoneInfo("UTC"))
    with course.api.gradebook as book:
        assignment = book.find_assignment(course.unit)
        if rules:
            assignment.duedate = _naive(rules.due)
        for submission in assignment.submissions:
            student = graded.get(submission.student_id)
            if student is None:
                continue
            when, _ = known.time_of(student.student, student.origin or Origin())
            if when:
                submission.timestamp = _naive(when)
            if rules and (later := rules.due_for(student.student) - rules.due):
                submission.extension = later
            for notebook in submission.notebooks:
                notebook.late_submission_penalty = penalty(notebook.score, student.late) or None
        book.db.commit()


def _naive(when: datetime) -> datetime:
    """A time as nbgrader stores it: in UTC, without saying so."""
    return when.astimezone(UTC).replace(tzinfo=None)


def _time(value: Any, zone: ZoneInfo) -> datetime:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if not isinstance(value, datetime):
        raise ValueError(f"{value!r} is no time such as 2026-11-20T23:59:00")
    return value.replace(tzinfo=value.tzinfo or zone)


def _extension(value: Any, zone: ZoneInfo) -> datetime | timedelta:
    if isinstance(value, str) and (m := _LATER.fullmatch(value.strip().lstrip("+"))):
        unit = {"m": "minutes", "h": "hours", "d": "days"}[m[2][0].lower()]
        return timedelta(**{unit: float(m[1])})
    return _time(value, zone)


def _percent(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 100:
        raise ValueError(f"{value!r} is no percentage from 0 to 100")
    return float(value)


def _long(late: timedelta) -> str:
    minutes = max(1, math.ceil(late.total_seconds() / 60))
    days, rest = divmod(minutes, 24 * 60)
    hours, minutes = divmod(rest, 60)
    parts = [f"{days} d"] * bool(days) + [f"{hours} h"] * bool(hours) + [f"{minutes} min"] * bool(minutes and not days)
    return " ".join(parts)
