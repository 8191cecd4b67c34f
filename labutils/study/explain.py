"""`lab.explain`: what the learner's kernel does, beside the reference solution."""

from __future__ import annotations

import contextlib
import html
import io
from collections.abc import Callable
from typing import Any

from .. import exercises
from ..backends.extract import NotExtractable
from ..backends.interpreter import Unavailable
from ..check import checked, figures, names, sidecar
from ..check.check import _namespace
from ..check.diagnose import NEEDS_GPU
from ..check.evaluate import PUBLIC_SEED, callable_problem
from ..gpu import device
from ..language.show import shown, shown_page
from ..plots.explorer import VIEW, live
from ..spec.exercise import Exercise, KernelExercise
from ..spec.verdict import Verdict
from . import reference
from .card import Card


def offer(exercise: Exercise, verdict: Verdict) -> Folded | str:
    """What stands below a check that passed: the card, folded, or where nothing can be unfolded one line. The card is
    made only when somebody asks for it."""
    if not verdict.passed or reference.of(exercise.id) is None:
        return ""
    folded = Folded(exercise.id)
    return folded if live() else folded.line


class Folded:
    """The card of an exercise under a headline that a click unfolds."""

    def __init__(self, exercise_id: str):
        self.exercise_id = exercise_id
        self._view: Any = None

    @property
    def line(self) -> str:
        return f'lab.explain("{self.exercise_id}") shows what this kernel does beside the reference solution.'

    def widget(self):
        """The ipywidget. It makes the card when it is opened first."""
        if self._view is None:
            import ipywidgets as w

            content = w.HTML(shown("One moment: the kernel runs once more, and its machine code is read."))
            self._view = w.Accordion([content], selected_index=None)
            self._view.set_title(0, shown("What this kernel does beside the reference solution"))

            def opened(change) -> None:
                self._view.unobserve(opened, "selected_index")
                content.value = self._card()

            self._view.observe(opened, "selected_index")
        return self._view

    def _card(self) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            card = explain(self.exercise_id)
        return shown_page(card.to_html()) if card else f"<p>{html.escape(printed.getvalue())}</p>"

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/plain": self.line, VIEW: self.widget()._repr_mimebundle_()[VIEW]}


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
    if why := _wrong(checked.verdict(exercise, fn)):
        print(f"lab.explain: the kernel is not right yet, so its figures would mean nothing: {why}. Run lab.check.")
        return None
    try:
        if device.has_gpu():
            yours = sidecar.figures(exercise, fn, PUBLIC_SEED)
        else:
            yours = figures.figures(exercise, fn, PUBLIC_SEED)
    except figures.NoFigures as e:
        print(f"lab.explain: the kernel is not right yet, so its figures would mean nothing: {e}. Run lab.check.")
        return None
    except (NotExtractable, Unavailable) as e:
        print(f"lab.explain: {e}")
        return None
    return Card(exercise, yours, known)


def _wrong(verdict: Verdict) -> str:
    """What a check found wrong; "" if nothing, or if this machine cannot say."""
    if verdict.passed or (verdict.headline and verdict.headline.kind in ("unavailable", NEEDS_GPU)):
        return ""
    failed = sum(not result.passed for result in verdict.results)
    return f"{failed} of {len(verdict.results)} cases fail" if failed else verdict.headline.symptom
