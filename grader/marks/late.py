"""Late submissions: a small table gives the due time and the penalty.

    due = 2026-11-20T23:59:00        # in time_zone, unless it names its own offset
    time_zone = "Europe/Berlin"
    grace_minutes = 15               # nothing is lost up to here; after it the whole delay counts
    per_day = 10                     # percent of the points for each day that has begun …
    most = 50                        # … and never more than this
    steps = [[24, 10], [72, 30]]     # or instead: up to 24 hours 10 percent, up to 72 hours 30, after that `most`

    [extensions]                     # a later due time, or how much later: "36 h", "2 days"
    "Ana Duarte" = 2026-11-22T23:59:00
    "ben" = "2 days"

    [handed_in]                      # the truth, where a platform's time is wrong
    "Chiara Lombardi" = 2026-11-20T22:10:00

Times come from nbgrader's timestamp, Gradescope's, the zip's or the file's; the sentence says which. Canvas flags late
work itself and knows its own extensions, so its flag decides whether a submission is late, and the time by how much.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from grader.marks.results import Graded, Lateness, Origin, penalty

_KNOWN = {"due", "time_zone", "grace_minutes", "per_day", "most", "steps", "extensions", "handed_in"}
_LATER = re.compile(r"(\d+(?:\.\d+)?)\s*(min|minutes?|h|hours?|d|days?)", re.IGNORECASE)


class LateError(Exception):
    """Invalid late rules; the message says where."""


@dataclass(frozen=True)
class Rules:
    """When a unit is due, and the penalty for a later submission in percent of the earned points."""

    due: datetime
    zone: ZoneInfo
    grace: timedelta = timedelta()
    per_day: float = 0.0
    most: float = 100.0
    steps: tuple[tuple[float, float], ...] = ()
    extensions: dict[str, datetime | timedelta] = field(default_factory=dict)
    handed_in: dict[str, datetime] = field(default_factory=dict)
    text: str = field(default="", repr=False, compare=False)
    """The file they come from."""

    @staticmethod
    def read(path: Path) -> Rules:
        """The rules in a TOML file. Raises LateError."""
        try:
            return Rules.parse(path.read_text(encoding="utf-8"), path.name)
        except (OSError, UnicodeDecodeError) as problem:
            raise LateError(f"{path.name}: {problem}") from None

    @staticmethod
    def parse(text: str, name: str = "late rules") -> Rules:
        """The rules in the text of a file. Raises LateError."""
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as problem:
            raise LateError(f"{name}: {problem}") from None
        if unknown := set(table) - _KNOWN:
            raise LateError(f"{name}: unknown rule {', '.join(sorted(unknown))}")
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
                text=text,
            )
        except (TypeError, ValueError, AttributeError, ZoneInfoNotFoundError) as problem:
            raise LateError(f"{name}: {problem}") from None
        except KeyError:
            raise LateError(f"{name}: it has no due time") from None

    def for_(self, student: str, origin: Origin | None) -> Rules:
        """The same rules, where a student whom they name as the platform does has the name of the gradebook: that one
        may have lost a quote or a slash."""
        names = [n for n in (origin.name, origin.id, origin.email) if n] if origin else []
        tables = {}
        for what in ("extensions", "handed_in"):
            table = getattr(self, what)
            found = next((table[n] for n in names if n in table), None)
            tables[what] = table if found is None or student in table else {**table, student: found}
        return replace(self, **tables)

    def strangers(self, students: Iterable[Graded]) -> list[str]:
        """Names in the rules that no student has, such as misspelled ones."""
        unknown = {*self.extensions, *self.handed_in}
        for s in students if unknown else ():
            unknown -= {s.student, *((s.origin.name, s.origin.id, s.origin.email) if s.origin else ())}
        return sorted(unknown)

    def due_for(self, student: str) -> datetime:
        """A student's due time, any extension included."""
        later = self.extensions.get(student, timedelta())
        return later if isinstance(later, datetime) else self.due + later

    def of(self, student: str, origin: Origin | None) -> Lateness | None:
        """This student's late penalty; None if in time. Unknown submission times are never penalized."""
        if (own := self.for_(student, origin)) != self:
            return own.of(student, origin)
        origin, due = origin or Origin(), self.due_for(student)
        when, clock = self.time_of(student, origin)
        corrected = student in self.handed_in
        if origin.marked_late is False and not corrected:
            return None
        # in UTC: two times of one zone are subtracted as its clocks show them, which is wrong by an hour in some nights
        late = when.astimezone(UTC) - due.astimezone(UTC) if when else timedelta()
        if origin.marked_late and not corrected and student not in self.extensions:
            if late <= timedelta():
                late, clock = timedelta(seconds=1), f"{origin.system.capitalize()}'s flag; the time is unknown"
        elif late <= self.grace:
            return None
        share = self.percent(late)
        known = when is not None and when > due
        submitted = f"Submitted on {when.astimezone(self.zone):%Y-%m-%d %H:%M %Z}" if known else "Submitted"
        cost = f"{share:g} % of the points are deducted" if share else "no deduction"
        message = f"{submitted}, {_long(late)} late ({clock}): {cost}."
        return Lateness(share, message, due.astimezone(UTC).isoformat())

    def percent(self, late: timedelta) -> float:
        """The penalty for a delay, in percent."""
        if self.steps:
            hours = late.total_seconds() / 3600
            return next((share for limit, share in self.steps if hours <= limit), self.most)
        return min(self.most, self.per_day * math.ceil(late / timedelta(days=1)))

    def time_of(self, student: str, origin: Origin) -> tuple[datetime | None, str]:
        """When a student submitted, if that is known, and the source of that time."""
        if student in self.handed_in:
            return self.handed_in[student], "time from the late rules"
        if not origin.handed_in:
            return None, "the time is unknown"
        when = datetime.fromisoformat(origin.handed_in)
        return when.replace(tzinfo=when.tzinfo or self.zone), origin.clock


def applied(rules: Rules | None, students: Iterable[Graded]) -> Iterator[Graded]:
    """The students, each with the late penalty."""
    for student in students:
        student.late = rules.of(student.student, student.origin) if rules and not student.problem else None
        yield student


def enter(course, students: Iterable[Graded], rules: Rules | None = None) -> list[str]:
    """Enter due times, submission times and penalties into nbgrader's gradebook, for its feedback and export; returns
    the students whose penalty is another one than before.

    nbgrader would compute a penalty while it autogrades, before a person graded the written answers. The penalty is a
    share of all points, so it is entered here, after grading and again before each export, in the same column.
    """
    from nbgrader.api import SubmittedAssignment

    graded, known = (
        {s.student: (s.origin, s.late) for s in students},
        rules or Rules(datetime.now(UTC), ZoneInfo("UTC")),
    )
    changed = []
    with course.api.gradebook as book:
        assignment = book.find_assignment(course.unit)
        if rules:
            assignment.duedate = _naive(rules.due)
        found = book.db.query(SubmittedAssignment.id).filter_by(assignment_id=assignment.id)
        ids = [number for (number,) in found]
        for part in (ids[at : at + _AT_ONCE] for at in range(0, len(ids), _AT_ONCE)):
            for submission in book.db.query(SubmittedAssignment).filter(SubmittedAssignment.id.in_(part)):
                student = submission.student_id
                if student not in graded:
                    continue
                origin, late = graded[student]
                own = known.for_(student, origin)
                when, _ = own.time_of(student, origin or Origin())
                if when:
                    submission.timestamp = _naive(when)
                if rules and (later := own.due_for(student) - rules.due):
                    submission.extension = later
                for notebook in submission.notebooks:
                    before = notebook.late_submission_penalty or None
                    notebook.late_submission_penalty = penalty(notebook.score, late) or None
                    changed += [student] * (notebook.late_submission_penalty != before)
            book.db.commit()
            book.db.expunge_all()
    return changed


_AT_ONCE = 200
"""Submissions that are taken from the gradebook at a time: a large class would fill the memory."""


def _naive(when: datetime) -> datetime:
    """A time as nbgrader stores it: in UTC, without saying so."""
    return when.astimezone(UTC).replace(tzinfo=None)


def _time(value: Any, zone: ZoneInfo) -> datetime:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if not isinstance(value, datetime):
        raise ValueError(f"{value!r} is not a time such as 2026-11-20T23:59:00")
    return value.replace(tzinfo=value.tzinfo or zone)


def _extension(value: Any, zone: ZoneInfo) -> datetime | timedelta:
    if isinstance(value, str) and (m := _LATER.fullmatch(value.strip().lstrip("+"))):
        unit = {"m": "minutes", "h": "hours", "d": "days"}[m[2][0].lower()]
        return timedelta(**{unit: float(m[1])})
    return _time(value, zone)


def _percent(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 100:
        raise ValueError(f"{value!r} is not a percentage from 0 to 100")
    return float(value)


def _long(late: timedelta) -> str:
    minutes = max(1, math.ceil(late.total_seconds() / 60))
    days, rest = divmod(minutes, 24 * 60)
    hours, minutes = divmod(rest, 60)
    parts = [f"{days} d"] * bool(days) + [f"{hours} h"] * bool(hours) + [f"{minutes} min"] * bool(minutes and not days)
    return " ".join(parts)
