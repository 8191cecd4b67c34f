"""`lab.check`: run an exercise's cases on the learner's function, print what was found, return the marks."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from typing import Any

from . import compare
from . import exercise as exercises
from .backends import TIME_LIMIT, Backend, child, errors, pick
from .exercise import Case, KernelExercise, PlainExercise, signature_problem
from .inputs import hidden_cases, make_run
from .source import NotExtractable
from .verdict import CaseResult, Diagnosis, Verdict

PUBLIC_SEED = 2024
"""Learners see the same data every time; the grader sets GPULAB_SEED to a secret one, which also adds hidden cases."""

VERDICT_MIME = "application/vnd.gpu-kernel-lab.verdict+json"

HIDDEN_CASES = 4


class NotWrittenYet(Exception):
    """Stops "Run all" at the first unfilled exercise, with our message in place of a traceback."""

    def _render_traceback_(self):
        return [str(self)]


def check(exercise_id: str, fn: Callable | None = None) -> float:
    """Check `fn` (by default the notebook's function of the exercise's name), print the report, return the points.

    Raises NotWrittenYet when the exercise is unfilled, so that running all cells stops there. Every other failure is
    reported and returns 0.0. Never writes to stderr.
    """
    try:
        exercise = exercises.get(exercise_id)
    except KeyError as e:
        print(f"lab.check: {e.args[0]}")
        return 0.0
    if fn is None:
        fn = _namespace().get(exercise.entry)
    seed = os.environ.get("GPULAB_SEED")
    verdict = evaluate(
        exercise,
        fn,
        seed=int(seed) if seed else PUBLIC_SEED,
        hidden=HIDDEN_CASES if seed else 0,
    )
    if seed:
        _publish(verdict)
    if verdict.unfilled:
        raise NotWrittenYet(
            f"{exercise.title}: {verdict.headline.symptom}.\n{verdict.headline.advice}\n"
            f"0 of {verdict.points:g} points so far."
        )
    print(verdict.text())
    return float(verdict.marks)


def evaluate(
    exercise: exercises.Exercise,
    fn: Any,
    *,
    seed: int = PUBLIC_SEED,
    hidden: int = 0,
    backend: Backend | None = None,
    time_limit: float = TIME_LIMIT,
) -> Verdict:
    """The verdict on `fn`, with marks: the one function behind notebook, grader and audit. Never raises for bad code."""
    plain = isinstance(exercise, PlainExercise)
    if not plain:
        backend = backend or pick()
    verdict = Verdict(exercise.id, "plain Python" if plain else backend.describe(), points=exercise.points.total)
    problem = _callable_problem(exercise, fn)
    if problem:
        verdict.headline = problem
    elif plain:
        _evaluate_plain(exercise, fn, verdict, seed, hidden, time_limit)
    else:
        try:
            _evaluate_kernel(exercise, fn, verdict, seed, hidden, backend, time_limit)
        except _unavailable() as e:
            verdict.headline = Diagnosis("unavailable", str(e), "The check can run where Triton runs.")
    verdict.marks = exercise.points.award(verdict)
    return verdict


def _unavailable():
    from .backends.interpreter import Unavailable

    return Unavailable


def _callable_problem(exercise, fn) -> Diagnosis | None:
    name = exercise.entry
    if fn is None:
        return compare.diagnosis("missing-function", f"there is no function called {name} in this notebook")
    names = tuple(exercise.arguments) if isinstance(exercise, KernelExercise) else tuple(exercise.cases[0].sizes)
    if hasattr(fn, "fn") and not isinstance(exercise, PlainExercise):
        return compare.diagnosis("signature", f"{name} is a kernel; the check needs the launcher that launches it")
    if why := signature_problem(fn, names):
        return compare.diagnosis("signature", f"{getattr(fn, '__name__', name)}: {why}")
    return None


# --- kernels -------------------------------------------------------------------------------------------------------


def _evaluate_kernel(exercise: KernelExercise, fn, verdict, seed, hidden, backend, time_limit) -> None:
    cases = [(c, False) for c in exercise.cases]
    cases += [(c, True) for c in hidden_cases(exercise, seed, hidden)] if hidden else []
    sidecar = _sidecar(exercise, fn, seed, hidden, verdict) if "record" not in backend.can else None
    runs = [make_run(exercise, c, seed, backend.device, backend.allocate) for c, _ in cases]
    outcomes = backend.run(fn, runs, time_limit)
    for (_, is_hidden), run, outcome in zip(cases, runs, outcomes, strict=False):
        result = compare.examine(run, outcome, is_hidden)
        verdict.results.append(result)
        _add_counts(verdict, exercise, run.case, outcome)
        verdict.printed = verdict.printed or outcome.printed
        if result.diagnosis and result.diagnosis.kind in ("unfilled", "timeout", "died", "no-kernel"):
            break  # the other cases would only repeat it, slowly
    if problem := backend.compile_problem(fn):
        verdict.headline = compare.from_problem(problem)
    if sidecar is not None:
        _merge(verdict, sidecar.verdict())
    if verdict.headline is None:
        verdict.headline = compare.most_telling([r.diagnosis for r in verdict.results if r.diagnosis])
    elif said := compare.most_telling([r.diagnosis for r in verdict.results if r.diagnosis]):
        verdict.headline = compare.most_telling([verdict.headline, said])


def _sidecar(exercise, fn, seed, hidden, verdict):
    from .backends.sidecar import Sidecar

    try:
        return Sidecar(exercise.id, fn, seed, hidden)
    except NotExtractable as e:
        verdict.notes.append(f"Memory accesses were not recorded: {e}.")
        return None


def _merge(verdict: Verdict, recorded: Verdict | str) -> None:
    """What the recording process saw counts too: a GPU forgives reads outside an array and races that lose nothing."""
    if isinstance(recorded, str):
        verdict.notes.append(f"Memory accesses were not recorded: {recorded}.")
        return
    verdict.counts = recorded.counts
    seen = {r.case: r.diagnosis for r in recorded.results if r.diagnosis}
    for i, r in enumerate(verdict.results):
        both = [d for d in (r.diagnosis, seen.get(r.case)) if d]
        if both:
            verdict.results[i] = CaseResult(r.case, compare.most_telling(both), r.error, r.seconds, r.hidden)


def _add_counts(verdict: Verdict, exercise: KernelExercise, case: Case, outcome) -> None:
    """Keep the traffic of the largest case, beside what must move at least."""
    if not outcome.counts:
        return
    itemsize = {"float64": 8, "float32": 4}.get(exercise.dtype(case), 2)
    compulsory = exercise.cost(case.sizes, itemsize).bytes
    if compulsory >= verdict.counts.get("compulsory_bytes", 0):
        moved = outcome.counts["load_bytes"] + outcome.counts["store_bytes"]
        verdict.counts = {
            "case": case.name,
            "moved_bytes": moved,
            "compulsory_bytes": compulsory,
            **outcome.counts,
        }


# --- plain Python --------------------------------------------------------------------------------------------------


def _evaluate_plain(exercise: PlainExercise, fn, verdict, seed, hidden, time_limit) -> None:
    import random

    rng, cases = random.Random(seed), [(c, False) for c in exercise.cases]
    if hidden and exercise.draw:
        for k in range(hidden):
            sizes = dict(exercise.draw(rng))
            cases.append((Case(", ".join(f"{n} = {v}" for n, v in sizes.items()) + f" ({k + 1})", sizes), True))
    printed = child.Printed()
    for case, is_hidden in cases:
        said = None
        try:
            with (
                contextlib.redirect_stdout(printed),
                contextlib.redirect_stderr(printed),
                child.alarm(time_limit),
            ):
                yours = fn(*case.sizes.values())
            said = _compare_plain(exercise, case, yours)
        except (Exception, errors.TimeLimit, SystemExit) as e:
            said = compare.from_problem(errors.explain(e))
        verdict.results.append(CaseResult(case.name, said, hidden=is_hidden))
        if said and said.kind in ("unfilled", "timeout"):
            break
    verdict.printed = printed.getvalue()
    verdict.headline = compare.most_telling([r.diagnosis for r in verdict.results if r.diagnosis])


def _compare_plain(exercise: PlainExercise, case: Case, yours) -> Diagnosis | None:
    expected = exercise.reference(**case.sizes)
    call = f"{exercise.entry}({', '.join(map(str, case.sizes.values()))})"
    if yours is None:
        return compare.diagnosis(
            "wrong-values", f"{call} returned None", advice="End the function with a return statement."
        )
    try:
        close = abs(float(yours) - float(expected)) <= exercise.rtol * abs(float(expected))
    except (TypeError, ValueError):
        return compare.diagnosis(
            "wrong-values", f"{call} returned a {type(yours).__name__}", advice="Return one number."
        )
    if close:
        return None
    hint = exercise.explain(case.sizes, yours, expected) if exercise.explain else None
    return compare.diagnosis(
        "wrong-formula" if hint else "wrong-values",
        f"{call} is {yours!r}, expected {expected!r}",
        advice=hint or "Work this case out by hand, then compare term by term.",
    )


# --- the notebook --------------------------------------------------------------------------------------------------


def _namespace() -> dict[str, Any]:
    """The learner's variables: the notebook's, or in a script those of whoever called the check."""
    with contextlib.suppress(ImportError):
        from IPython import get_ipython

        if (shell := get_ipython()) is not None:
            return shell.user_ns
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__", "").split(".")[0] == "labutils":
        frame = frame.f_back
    return {**frame.f_globals, **frame.f_locals}


def _publish(verdict: Verdict) -> None:
    """Leave the verdict in the cell's output for the grader's report."""
    with contextlib.suppress(ImportError):
        from IPython.display import publish_display_data

        publish_display_data({VERDICT_MIME: verdict.to_json(), "text/plain": ""})


def tiny(exercise_id: str, fn: Callable | None = None) -> None:
    """Print inputs, yours and expected of the exercise's tiny case side by side."""
    exercise = exercises.get(exercise_id)
    fn = fn or _namespace().get(exercise.entry)
    if problem := _callable_problem(exercise, fn):
        print(problem.symptom)
        return
    backend = pick()
    run = make_run(exercise, exercise.tiny, PUBLIC_SEED, backend.device, backend.allocate)
    try:
        outcome = next(iter(backend.run(fn, [run])))
    except _unavailable() as e:
        print(e)
        return
    if outcome.problem:
        print(f"{compare.from_problem(outcome.problem).symptom}")
        return
    print(compare.side_by_side(run))
