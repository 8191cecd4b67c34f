"""`lab.check` and `lab.tiny`: what a learner calls in a notebook. They print, and never write to stderr."""

from __future__ import annotations

import contextlib
import difflib
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from types import FunctionType
from typing import Any

from .. import environment
from ..backends import pick
from ..backends.interpreter import Unavailable
from ..spec.exercise import Exercise, KernelExercise
from ..spec.inputs import Run, make_run
from ..spec.verdict import Verdict
from . import checked, names
from .compare import Comparison
from .diagnose import diagnosis, from_problem
from .evaluate import PUBLIC_SEED, callable_problem, evaluate, signature_problem, unavailable
from .tables import side_by_side

VERDICT_MIME = "application/vnd.gpu-kernel-lab.verdict+json"

HIDDEN_CASES = 4

__all__ = ["HIDDEN_CASES", "PUBLIC_SEED", "VERDICT_MIME", "NotWrittenYet", "check", "evaluate", "tiny"]


class NotWrittenYet(Exception):
    """Stops "Run all" at the first unfilled exercise, with our message in place of a traceback."""

    def _render_traceback_(self):
        return [str(self)]


def check(
    exercise_id: str, fn: Callable | None = None, after: Callable[[Exercise, Verdict], None] = lambda *report: None
) -> float:
    """Check `fn` (by default the notebook's function of the exercise's name), print the report, return the points.

    Raises NotWrittenYet when the exercise is unfilled, so that running all cells stops there. Every other failure is
    reported and returns 0.0. Never writes to stderr. `after` gets every report that a learner has read, unless a
    class is being graded.
    """
    from .. import exercises  # not above: what the judge lets a submission see has no exercises

    try:
        exercise = exercises.get(exercise_id)
    except KeyError as e:
        print(f"lab.check: {e.args[0]}")
        return 0.0
    if os.environ.get("GPULAB_JUDGED"):
        print("Judged outside this notebook.")
        return 0.0
    namespace = _namespace()
    if fn is None:
        fn = namespace.get(exercise.entry)
    seed = os.environ.get("GPULAB_SEED")
    if old := names.outdated(fn, exercise.entry):
        verdict = Verdict(exercise.id, "not run", points=exercise.points.total)
        verdict.headline = replace(diagnosis("missing-function", old[0]), advice=old[1])
    elif why := names.not_built(fn):
        verdict = Verdict(exercise.id, "not run", points=exercise.points.total, headline=unavailable(exercise, why))
    else:
        verdict = evaluate(
            exercise, fn, seed=int(seed) if seed else PUBLIC_SEED, hidden=HIDDEN_CASES if seed else 0, explain=True
        )
    if fn is not None and (said := names.unused(fn, exercise.entry)):
        verdict.notes.append(said)
    if fn is None and (near := _similar(exercise, namespace)):
        advice = f"Did you mean {near}? Name it {exercise.entry}, run its cell, then run this check again."
        verdict.headline = replace(verdict.headline, advice=advice)
    if seed:
        _publish(verdict)
    if verdict.unfilled:
        raise NotWrittenYet(
            f"{exercise.title}: {verdict.headline.symptom}.\n{verdict.headline.advice}\n"
            f"0 of {verdict.points:g} points so far."
        )
    print(verdict.text())
    if not seed and not environment.grading_in_progress():
        checked.remember(exercise, fn, verdict)
        after(exercise, verdict)
    return float(verdict.marks)


def tiny(exercise_id: str, fn: Callable | None = None) -> None:
    """Print inputs, yours and expected of the exercise's tiny case side by side."""
    from .. import exercises

    try:
        exercise = exercises.get(exercise_id)
    except KeyError as e:
        print(f"lab.tiny: {e.args[0]}")
        return
    if not isinstance(exercise, KernelExercise):
        print(f"lab.tiny: {exercise.id} has no kernel; lab.check shows yours and expected.")
        return
    fn = fn or _namespace().get(exercise.entry)
    if problem := callable_problem(exercise, fn):
        print(problem.symptom)
        return
    if old := names.outdated(fn, exercise.entry):
        print(old[0])  # the check, which mostly follows, says what to try
        return
    if why := names.not_built(fn):
        print(why)
        return
    backend = pick(exercise.language, exercise.only)
    if problem := backend.broken():
        print(from_problem(problem).symptom)
        return
    run = make_run(exercise, exercise.tiny, PUBLIC_SEED, backend.device, backend.allocate)
    try:
        outcome = next(iter(backend.run(fn, [run])))
    except Unavailable as e:
        print(e)
        return
    print(from_problem(outcome.problem).symptom if outcome.problem else _tiny_text(run))
    for finding in outcome.findings[:3]:
        print(f"Careful: {finding.sentence()}.")
    if outcome.printed:
        print("\nYour code printed:\n" + outcome.printed.rstrip())


def _tiny_text(run: Run) -> str:
    """The inputs, the learner's outputs and the expected ones of a small run, as text."""
    comparison = Comparison(run)
    blocks: list[tuple] = [(n, v, None) for n, v in comparison.inputs.items()]
    first = []
    for name in run.outputs:
        output = comparison.output(name)
        if wrong := output.bad.nonzero().tolist():
            first.append(f"First wrong element: {name}[{', '.join(map(str, wrong[0]))}].")
        blocks += [(f"{name} (yours)", output.got, output.unwritten), (f"{name} (expected)", output.expected, None)]
    return "\n".join([side_by_side(blocks), *first])


def _namespace() -> dict[str, Any]:
    """The learner's variables: the notebook's, or in a script those of the caller."""
    with contextlib.suppress(ImportError):
        from IPython import get_ipython

        if (shell := get_ipython()) is not None:
            return shell.user_ns
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__", "").split(".")[0] == "labutils":
        frame = frame.f_back
    return {**frame.f_globals, **frame.f_locals}


def _similar(exercise: Exercise, namespace: dict[str, Any]) -> str | None:
    """The learner's function of nearly this name, or else the only one that takes these arguments."""
    functions = {n: f for n, f in namespace.items() if isinstance(f, FunctionType) and not n.startswith("_")}
    if near := difflib.get_close_matches(exercise.entry, functions, n=1, cutoff=0.7):
        return near[0]
    fitting = [
        n
        for n, f in functions.items()
        if tuple(f.__code__.co_varnames[: f.__code__.co_argcount]) == exercise.parameters
        and not signature_problem(f, exercise.parameters)
    ]
    return fitting[0] if len(fitting) == 1 else None


def _publish(verdict: Verdict) -> None:
    """Leave the verdict in the cell's output for the grader's report."""
    with contextlib.suppress(ImportError):
        from IPython.display import publish_display_data

        publish_display_data({VERDICT_MIME: verdict.to_json(), "text/plain": ""})
