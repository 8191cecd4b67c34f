"""`lab.hint`: an exercise's hints one after another. They are those of the notebook; grading never looks at them."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path

from .. import exercises
from ..exercises import hunts
from ..language import show
from ..spec.exercise import Exercise
from .progress import changing

PATH = Path(__file__).with_name("hints.json")


@functools.cache
def stored() -> Mapping[str, list[str]]:
    """Hints by exercise: data that `python -m grader build` collects from the notebooks."""
    return json.loads(PATH.read_text(encoding="utf-8"))


def of(exercise: Exercise) -> list[str]:
    """The hints of an exercise. A hunt's kernel has the hint that its notebook gives for naming the bug."""
    if found := stored().get(exercise.id):
        return found
    if hunts.is_hunt(exercise.id):
        name = exercise.id.partition("/")[2]
        return [text for text in stored().get(f"{exercise.unit}/bug", []) if text.startswith(f"`{name}`")]
    return []


def hint(exercise_id: str) -> None:
    """Print the hints shown so far and the next one, and remember that."""
    try:
        exercise = exercises.get(exercise_id)
    except KeyError as e:
        print(f"lab.hint: {e.args[0]}")
        return
    texts = of(exercise)
    if not texts:
        print(f"There are no hints for {exercise.id}: lab.check says what is wrong with an answer.")
        return
    with changing() as known:
        entry = known.of(exercise.id)
        new = entry.hints < len(texts)
        shown = entry.hints = min(len(texts), entry.hints + 1)
    for number, text in enumerate(texts[:shown], 1):
        print(f"Hint {number} of {len(texts)}: {show.shown(text)}")
    if not new:
        print("These are all hints. The check's message names the place of a mistake.")
