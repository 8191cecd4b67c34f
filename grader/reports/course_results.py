"""All units of a course in one table: percentages, the weighted result, the grade on the course's scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.course.settings import CourseSettings
from grader.intake.roster import Entry, match
from grader.marks.results import ClassResults
from grader.reports.exports import Final


@dataclass(frozen=True)
class GradedUnit:
    """A graded unit: its results, and the final points by student."""

    results: ClassResults
    final: dict[str, Final]


def table(units: Sequence[GradedUnit], settings: CourseSettings, roster: Sequence[Entry] = ()) -> list[list[str]]:
    """A row for everyone who is in the roster or submitted something. A unit without a submission counts as 0."""
    weights = [float(settings.weights.get(u.results.unit, 1)) for u in units]
    everyone: dict[Entry | str, list[float]] = {entry: [0.0] * len(units) for entry in roster}
    for number, unit in enumerate(units):
        owners = match(roster, [(s.student, s.origin) for s in unit.results.students], namesakes=True)
        entry_of = {student: entry for entry, student in owners.items()}
        shares = {s: f.score / f.points if f.points else 0.0 for s, f in unit.final.items()}
        for entry, student in owners.items():  # a group's points are those of each of its members
            everyone[entry][number] = shares[student]
        for student in shares.keys() - entry_of.keys():
            everyone.setdefault(student, [0.0] * len(units))[number] = shares[student]
    rows = [["name", "id", "email", *(u.results.unit for u in units), "percent", "grade"]]
    for who, shares in sorted(everyone.items(), key=lambda one: _name(one[0]).casefold()):
        percents = [100 * share for share in shares]
        percent = sum(w * p for w, p in zip(weights, percents, strict=True)) / (sum(weights) or 1)
        about = [who.id, who.email] if isinstance(who, Entry) else ["", ""]
        numbers = [f"{p:.1f}" for p in [*percents, percent]]
        rows.append([_name(who), *about, *numbers, settings.grade(percent)])
    return rows


def _name(who: Entry | str) -> str:
    return who.name if isinstance(who, Entry) else who
