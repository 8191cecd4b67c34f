"""`lab.walkthrough`: a solution and why it is written so, once the exercise is solved or the learner asks for it.

The texts are in a file of their own, which `python -m grader build` writes. A course may leave it out of what it gives
to learners, in whole or for some units, and no sandbox of the judge has it.
"""

from __future__ import annotations

import datetime
import functools
import html
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import exercises
from ..language.show import shown
from ..spec.exercise import Exercise
from ..spec.verdict import Verdict
from .progress import following, progress, unit_after_hunts

PATH = Path(__file__).with_name("walkthroughs.json")

RULE = "GPULAB_WALKTHROUGHS"
"""Environment variable: "off", "passed" (only after the check gave full points), or the first day, as in 2027-01-15."""

PARTS = {"why": "Why this way", "production": "In production code", "tried": "Also tried"}
"""The parts of a text, with their titles."""

HUNT_PARTS = {"bug": "The bug", "evidence": "The evidence", "practice": "In practice"}
"""Those of a hunt: line and cause, which case, count or picture shows it, and how such a bug is found elsewhere."""


@dataclass(frozen=True)
class Walkthrough:
    """The solution of an exercise, the parts of its text, and the next exercise."""

    exercise: str
    title: str
    code: str
    language: str
    texts: Mapping[str, str]
    following: str | None

    @property
    def steps(self) -> list[tuple[str, str]]:
        """Titles and texts, in order."""
        titles = (PARTS | HUNT_PARTS).items()
        found = [(title, self.texts[part]) for part, title in titles if part in self.texts]
        return [*found, ("Next", self._next)]

    @property
    def _next(self) -> str:
        """The next exercise of this notebook, or the next notebook."""
        if self.following is None:
            return "This was the last exercise."
        unit = exercises.get(self.following).unit
        if unit == exercises.get(self.exercise).unit:
            return f'`lab.check("{self.following}")`'
        if unit.endswith("_hunt") and (then := unit_after_hunts(self.following)):
            return f"the notebook `{unit}`, a bug hunt, or `{then}`."
        return f"the notebook `{unit}`."

    def __repr__(self) -> str:
        parts = (f"{title}: {text}" for title, text in self.steps)
        return "\n\n".join([f"{self.exercise}: {self.title}", self.code.rstrip(), *parts])

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, str]:
        parts = (f"**{title}.** {text}" for title, text in self.steps)
        fence = "cpp" if self.language == "cuda" else "python"
        head = f"**{self.exercise}: {self.title}**"
        shown = "\n\n".join([head, f"```{fence}\n{self.code.rstrip()}\n```", *parts])
        return {"text/markdown": shown, "text/plain": repr(self)}


@dataclass(frozen=True)
class Answers:
    """The questions of a unit that ask for an explanation, with model answers, as Markdown."""

    unit: str
    pairs: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        return "\n\n".join([self.unit, *(f"{question}\n\nModel answer: {answer}" for question, answer in self.pairs)])

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict[str, str]:
        parts = (f"{question}\n\n**Model answer.** {answer}" for question, answer in self.pairs)
        return {"text/markdown": "\n\n".join([f"**{html.escape(self.unit)}**", *parts]), "text/plain": repr(self)}


@functools.cache
def stored() -> Mapping[str, Any]:
    """The file: "exercises" by id, "questions" by unit. Empty where it is left out."""
    try:
        return json.loads(PATH.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {"exercises": {}, "questions": {}}


def walkthrough(name: str, anyway: bool = False) -> Walkthrough | Answers | None:
    """The walkthrough of an exercise, or the model answers of a unit. Where it is locked: prints why, returns None."""
    unit = next((e.unit for e in exercises.all_exercises().values() if e.unit == name), None)
    try:
        exercise = None if unit else exercises.get(name)
    except KeyError as e:
        print(f"lab.walkthrough: {e.args[0]}")
        return None
    if problem := closed(anyway):
        print(f"lab.walkthrough: {problem}")
        return None
    return _answers(unit, anyway) if unit else _solution(exercise, anyway)


def closed(anyway: bool = False) -> str:
    """Why the course shows no walkthroughs now; "" if it does."""
    rule = os.environ.get(RULE, "").strip()
    if rule in ("", "on"):
        return ""
    if rule == "off":
        return "this course has switched walkthroughs off; lab.hint gives hints."
    if rule == "passed":
        return "in this course a walkthrough opens only when lab.check gives full points." if anyway else ""
    try:
        first = datetime.date.fromisoformat(rule)
    except ValueError:
        return f"{RULE} is {rule!r}; it must be on, off, passed or a day such as 2027-01-15."
    if datetime.date.today() < first:
        return f"this course opens walkthroughs on {first}; lab.hint gives hints."
    return ""


def offer(exercise: Exercise, verdict: Verdict) -> str:
    """One line for a check with full points, if there is something to show."""
    full = verdict.passed and verdict.marks >= exercise.points.total
    if not full or exercise.id not in stored()["exercises"] or closed():
        return ""
    return f'lab.walkthrough("{exercise.id}") shows a solution, why it is written so, and what comes next.'


def solved(exercise: Exercise) -> bool:
    """Has a check of this exercise given full points?"""
    entry = progress().entries.get(exercise.id)
    return bool(entry and entry.passed) and entry.points >= exercise.points.total


def _solution(exercise: Exercise, anyway: bool) -> Walkthrough | None:
    found = stored()["exercises"].get(exercise.id)
    if found is None:
        print(f"lab.walkthrough: this copy of the course has no walkthrough of {exercise.id}; your teacher may add it.")
        return None
    if not anyway and not solved(exercise):
        print(
            f'{exercise.id} is not solved yet: get full points from lab.check("{exercise.id}"), or call '
            f'lab.walkthrough("{exercise.id}", anyway=True).'
        )
        return None
    texts = {part: found[part] for part in PARTS | HUNT_PARTS if part in found}
    language = getattr(exercise, "language", "python")
    return Walkthrough(exercise.id, exercise.title, found["code"], language, texts, following(exercise.id))


def _answers(unit: str, anyway: bool) -> Answers | None:
    pairs = stored()["questions"].get(unit)
    if pairs is None:
        print(f"lab.walkthrough: this copy of the course has no model answers for {unit}.")
        return None
    left = [e.id for e in exercises.all_exercises().values() if e.unit == unit and not solved(e)]
    if left and not anyway:
        print(
            f"The model answers of {unit} open when its exercises are solved (next: {left[0]}), or call "
            f'lab.walkthrough("{unit}", anyway=True).'
        )
        return None
    return Answers(unit, tuple((shown(question), shown(answer)) for question, answer in pairs))
