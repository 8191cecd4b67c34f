"""`lab.explain`: what the learner's kernel does, beside the reference solution."""

from __future__ import annotations

from collections.abc import Callable

from .. import exercises
from ..backends.extract import NotExtractable
from ..backends.interpreter import Unavailable
from ..check import figures, names, sidecar
from ..check.check import _namespace
from ..check.evaluate import PUBLIC_SEED, callable_problem
from ..gpu import device
from ..spec.exercise import Exercise, KernelExercise
from ..spec.verdict import Verdict
from . import reference
from .card import Card


def offer(exercise: Exercise, verdict: Verdict) -> str:
    """One line for a check that passed: the card exists, and is made only when somebody asks for it."""
    if not verdict.passed or reference.of(exercise.id) is None:
        return ""
    return f'lab.explain("{exercise.id}") shows what this kernel does beside the reference solution.'


def explain(exercise_id: str, fn: Callable | None = None) -> Card | None:
    """The card of `fn` (by default the notebook's function); prints why and returns None where there is none."""
    try:
        exercise = exercises.get(exercise_id)
    except KeyError as e:
        print(f"lab.explain: {e.args[0]}")
        return None
    if not isinstance(exercise, KernelExercise):
        print(f"lab.explain: {exercise.id} has no kernel.")
        return None
    fn = fn or _namespace().get(exercise.entry)
    if problem := callable_problem(exercise, fn):
        print(f"lab.explain: {problem.symptom}")
        return None
    if old := names.outdated(fn, exercise.entry):
        print("\n".join(old))
        return None
    known = reference.of(exercise.id)
    if known is None:
        print(f"lab.explain: there are no figures of the reference solution of {exercise.id}.")
        return None
    try:
        if device.has_gpu():
            yours = sidecar.figures(exercise.id, fn, PUBLIC_SEED)
        else:
            yours = figures.figures(exercise, fn, PUBLIC_SEED)
    except figures.NoFigures as e:
        print(f"lab.explain: the kernel is not right yet, so its figures would mean nothing: {e}. Run lab.check.")
        return None
    except (NotExtractable, Unavailable) as e:
        print(f"lab.explain: {e}")
        return None
    return Card(exercise, yours, known)
