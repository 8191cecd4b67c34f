"""Whose a submission is among the students that a run has already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from grader.intake.collect import Submission
from grader.marks.results import Origin


def join(handed_in: list[Submission], known: Mapping[str, Origin | None]) -> None:
    """Give each submission the name under which its student is known.

    A platform's number decides first, then the name as the platform writes it. Who has a known name and another number
    is someone else. A student whom a platform named before keeps its number: a late notebook may come by e-mail.
    """
    origins = {student: origin or Origin() for student, origin in known.items()}
    by_number = {(o.system, o.id): student for student, o in origins.items() if o.id}
    taken = set(known)
    for submission in handed_in:
        origin = submission.origin
        student = by_number.get((origin.system, origin.id)) if origin.id else None
        namesakes = [s for s, o in origins.items() if o.name == origin.name and not _differ(o, origin)]
        if student is None and namesakes:
            student = submission.student if submission.student in namesakes else namesakes[0]
            if len(namesakes) > 1:
                others = f"{len(namesakes)} students are called {origin.name!r}"
                submission.repairs.insert(0, f"{others}; this submission was taken for that of {student!r}.")
        if student is not None:
            before = origins[student]
            submission.student = student
            if before.id:
                named = {"system": before.system, "id": before.id, "name": before.name, "email": before.email}
                submission.origin = replace(origin, **named)
            elif not origin.email:
                submission.origin = replace(origin, email=before.email)
        elif submission.student in taken:
            submission.student = _another(submission.student, origin.id, taken)
        taken.add(submission.student)


def _differ(one: Origin, other: Origin) -> bool:
    """Whether the same platform has different numbers for them."""
    return one.system == other.system and one.id != other.id


def _another(name: str, number: str, taken: set[str]) -> str:
    name = f"{name} {number}".strip()
    while name in taken:
        name += "_"
    return name
