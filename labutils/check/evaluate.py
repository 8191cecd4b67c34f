"""`evaluate`: the verdict on one function. The one path behind the notebook's check, the grader and the audit."""

from __future__ import annotations

import contextlib
import inspect
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import torch

from ..backends import TIME_LIMIT, Backend, Outcome, child, pick
from ..backends.extract import NotExtractable
from ..backends.interpreter import Unavailable
from ..backends.offline import CompilerFailed
from ..spec.exercise import Case, Exercise, KernelExercise, PlainExercise
from ..spec.inputs import Run, hidden_cases, make_run
from ..spec.verdict import REPEATED, CaseResult, Diagnosis, Verdict
from . import diagnose
from .sidecar import Sidecar

PUBLIC_SEED = 2024
"""Learners see the same data every time; the grader sets GPULAB_SEED to a secret one, which also adds hidden cases."""


def evaluate(
    exercise: Exercise,
    fn: Any,
    *,
    seed: int = PUBLIC_SEED,
    hidden: int = 0,
    backend: Backend | None = None,
    time_limit: float = TIME_LIMIT,
    explain: bool = False,
) -> Verdict:
    """The verdict on `fn`, with points. Never raises for bad code. `explain`: after a failure look for its cause, which
    runs the kernel again."""
    plain = isinstance(exercise, PlainExercise)
    if not plain:
        backend = backend or pick(exercise.language, exercise.only)
    verdict = Verdict(exercise.id, "plain Python" if plain else backend.describe(), points=exercise.points.total)
    if problem := callable_problem(exercise, fn):
        verdict.headline = problem
    elif plain:
        _plain(exercise, fn, verdict, seed, hidden, time_limit, explain)
    else:
        try:
            with _one_thread():
                _kernel(exercise, fn, verdict, seed, hidden, backend, time_limit, explain)
        except Unavailable as e:
            verdict.headline = unavailable(exercise, str(e))
    return conclude(exercise, verdict)


def unavailable(exercise: KernelExercise, why: str) -> Diagnosis:
    """The exercise's language cannot be used on this machine."""
    triton = exercise.language == "triton"
    advice = "The check can run where Triton runs." if triton else "Run the %%cuda cell, then this check again."
    return Diagnosis("unavailable", why, advice)


def conclude(exercise: Exercise, verdict: Verdict) -> Verdict:
    """The verdict with its headline, what the counts say, and the marks: when all its cases are in."""
    if not verdict.explained:
        verdict.headline = _headline(verdict)
    if verdict.passed:
        verdict.notes += exercise.points.notes(verdict)
        verdict.notes += [why for what, why in verdict.reasons.items() if what == REPEATED]
    verdict.marks, verdict.open = exercise.points.award(verdict), exercise.points.open(verdict)
    return verdict


def _headline(verdict: Verdict) -> Diagnosis | None:
    found = [r for r in verdict.results if r.diagnosis]
    # Random sizes meet coincidences, such as one in which only the last elements are missing.
    found = [r.diagnosis for r in found if not r.hidden] or [r.diagnosis for r in found]
    return diagnose.headline(([verdict.headline] if verdict.headline else []) + found)


def callable_problem(exercise: Exercise, fn: Any) -> Diagnosis | None:
    """Why `fn` cannot be checked at all, or None."""
    name = exercise.entry
    if fn is None:
        return diagnose.diagnosis("missing-function", f"there is no function called {name} in this notebook")
    if hasattr(fn, "fn") and isinstance(exercise, KernelExercise):
        return diagnose.diagnosis("signature", f"{name} is a kernel; the check needs the launcher that launches it")
    if why := signature_problem(fn, exercise.parameters):
        return diagnose.diagnosis("signature", f"{getattr(fn, '__name__', name)}: {why}")
    return None


def signature_problem(fn, names: tuple[str, ...]) -> str | None:
    """Why `fn` cannot be called with these arguments by position, or None."""
    if not callable(fn):
        return f"this is a {type(fn).__name__}, not a function"
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*names)
    except TypeError:
        given = ", ".join(signature.parameters) or "nothing"
        return f"it is called with ({', '.join(names)}), but yours takes ({given})"
    return None


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """PyTorch computes on one CPU core: for arrays as small as a case's, waiting for other threads takes longer than
    the work, on a busy machine ten times as long."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# --- kernels -------------------------------------------------------------------------------------------------------


def _kernel(exercise: KernelExercise, fn, verdict: Verdict, seed, hidden, backend, time_limit, explain) -> None:
    begin, examined, cases = time.monotonic(), 0.0, cases_of(exercise, seed, hidden)
    if "record" not in backend.can and _refused_beside(exercise, fn, seed, hidden, time_limit, verdict, explain):
        return
    if problem := backend.broken():
        verdict.headline = diagnose.from_problem(problem)
        return
    runs = [make_run(exercise, c, seed, backend.device, backend.allocate) for c, _ in cases]
    outcomes, tried = backend.run(fn, runs, time_limit), []
    for (_, is_hidden), run, outcome in zip(cases, runs, outcomes, strict=False):
        before = time.monotonic()
        more = add_case(verdict, exercise, run, outcome, is_hidden)
        examined += time.monotonic() - before
        tried.append((run, outcome, verdict.results[-1]))
        if not more:
            break
    try:
        if problem := backend.compile_problem(fn):
            verdict.headline = diagnose.from_problem(problem)
    except CompilerFailed as e:
        verdict.notes.append(f"The kernel was not compiled for a GPU: {e}.")
    if not explain or "record" not in backend.can:
        return
    from . import evidence, missed_counts, slowness, waiting  # not above: the judge's sandboxes need none of them

    # as long again as the check of a right kernel: comparing with known mistakes has taken a part of it
    seconds = evidence.SECONDS + max(0.0, time.monotonic() - begin - 2 * examined)
    if (found := _headline(verdict)) is not None:
        with waiting.line("Looking for the reason …", seconds):
            verdict.headline, verdict.explained = evidence.refine(exercise, fn, found, tried, seed, seconds), True
    elif verdict.passed and verdict.counts:
        missed = [b for b in exercise.points.reached(verdict) if not b.met(verdict.counts)]
        verdict.reasons = missed_counts.reasons(exercise, fn, verdict.counts, missed, seed)
        ended = [(run, outcome) for run, outcome, _ in tried]
        verdict.reasons |= slowness.reasons(fn, ended, seconds)


def cases_of(exercise: Exercise, seed: int, hidden: int) -> list[tuple[Case, bool]]:
    """Public cases and hidden ones drawn from the seed; the second of each pair says whether it is hidden."""
    if isinstance(exercise, PlainExercise):
        return [(c, False) for c in exercise.cases] + [(c, True) for c in _hidden_plain(exercise, seed, hidden)]
    drawn = hidden_cases(exercise, seed, hidden) if hidden else []
    return [(c, False) for c in exercise.cases] + [(c, True) for c in drawn]


def add_case(verdict: Verdict, exercise: KernelExercise, run: Run, outcome: Outcome, hidden: bool) -> bool:
    """Examine what one case left behind and add it; False when the other cases would only repeat it, slowly."""
    result = diagnose.examine(run, outcome, hidden)
    verdict.results.append(result)
    if outcome.counts and not hidden:  # counts are worth points: they come from cases that are the same for all
        _add_counts(verdict, exercise, run.case, outcome)
    verdict.printed = verdict.printed or outcome.printed
    return not (result.diagnosis and result.diagnosis.kind in ("unfilled", "timeout", "died", "no-kernel"))


def _refused_beside(exercise, fn, seed, hidden, time_limit, verdict: Verdict, explain: bool) -> bool:
    """Record the kernel beside the GPU first: is it refused there?

    A GPU forgives reads outside an array and races that lose nothing; what it does not forgive, an endless loop or a
    wild address, costs the learner the notebook's kernel. So only what passes here is launched on it.
    """
    try:
        recorded = Sidecar(exercise.id, fn, seed, hidden, time_limit, explain).verdict()
    except NotExtractable as e:
        recorded = str(e)
    if isinstance(recorded, str):
        verdict.notes.append(f"Memory accesses were not recorded: {recorded}.")
        return False
    verdict.counts, verdict.reasons = recorded.counts, recorded.reasons
    if recorded.passed:
        return False
    if recorded.headline.kind in ("error", diagnose.NEEDS_GPU):
        # an exception harms no GPU, and the interpreter does not know all that a GPU does: its compiler decides
        verdict.notes.append(f"Memory accesses were not recorded to the end: {recorded.headline.symptom}.")
        return False
    verdict.results, verdict.headline, verdict.printed = recorded.results, recorded.headline, recorded.printed
    verdict.explained = recorded.explained
    verdict.notes += recorded.notes
    if not recorded.unfilled:
        verdict.notes.append("Found by a run with every access recorded; the kernel was not launched on the GPU.")
    return True


def _add_counts(verdict: Verdict, exercise: KernelExercise, case: Case, outcome) -> None:
    """Keep the traffic of the largest case, beside what must move at least."""
    itemsize = {"float64": 8, "float32": 4}.get(exercise.dtype(case), 2)
    cost = exercise.cost(case.sizes, itemsize)
    compulsory = cost.bytes
    if compulsory >= verdict.counts.get("compulsory_bytes", 0):
        moved = outcome.counts["load_bytes"] + outcome.counts["store_bytes"]
        verdict.counts = {
            "case": case.name,
            "moved_bytes": moved,
            "compulsory_bytes": compulsory,
            "compulsory_read": cost.read,
            "compulsory_written": cost.written,
            **outcome.counts,
        }


# --- plain Python --------------------------------------------------------------------------------------------------


def _plain(exercise: PlainExercise, fn, verdict: Verdict, seed, hidden, time_limit, explain) -> None:
    cases = cases_of(exercise, seed, hidden)
    jobs = [lambda case=case: one_plain(exercise, fn, case) for case, _ in cases]
    fitting = []
    for (case, is_hidden), result in zip(cases, child.run(jobs, time_limit), strict=False):
        if isinstance(result, str):
            diagnosis = diagnose.from_problem(child.end(result))
            fitting.append([])
        else:
            diagnosis = Diagnosis(**result["diagnosis"]) if result["diagnosis"] else None
            verdict.printed = verdict.printed or result["printed"]
            fitting.append(result["fitting"])
        verdict.results.append(CaseResult(case.name, diagnosis, hidden=is_hidden))
        if diagnosis and diagnosis.kind in ("unfilled", "timeout", "died"):
            break
    if explain and (found := _headline(verdict)) is not None:
        from . import plain_evidence  # not above: it is needed only after a failure

        results = zip(cases, verdict.results, fitting, strict=False)
        tried = [plain_evidence.Tried(case, r.diagnosis, said) for (case, _), r, said in results if not r.hidden]
        verdict.headline, verdict.explained = plain_evidence.refine(exercise, fn, found, tried), True


def _hidden_plain(exercise: PlainExercise, seed: int, count: int) -> list[Case]:
    if exercise.draw is None:
        return []
    rng, cases = random.Random(seed), []
    for k in range(count):
        sizes = dict(exercise.draw(rng))
        cases.append(Case(", ".join(f"{n} = {v}" for n, v in sizes.items()) + f" ({k + 1})", sizes))
    return cases


def one_plain(exercise: PlainExercise, fn, case: Case) -> dict:
    """In a child: what is wrong with the function in one case, as JSON, and what it printed."""
    arguments = exercise.arguments(case)
    attempt = child.attempt(fn, arguments.values())
    if attempt.problem:
        diagnosis = diagnose.from_problem(attempt.problem)
    else:
        diagnosis = compare_plain(exercise, case, attempt.returned, arguments)
    fitting = getattr(diagnosis.advice, "fitting", ()) if diagnosis else ()
    return {"diagnosis": asdict(diagnosis) if diagnosis else None, "printed": attempt.printed, "fitting": [*fitting]}


def compare_plain(exercise: PlainExercise, case: Case, yours, arguments: Mapping[str, Any]) -> Diagnosis | None:
    """What is wrong with what a plain function returned for these arguments, or None."""
    if exercise.examine:
        problem = exercise.examine(case.sizes, arguments, yours)
        return diagnose.diagnosis("wrong-formula", problem[0], "", problem[1]) if problem else None
    expected = exercise.reference(**case.sizes)
    call = f"{exercise.entry}({', '.join(map(str, case.sizes.values()))})"
    if yours is None:
        return diagnose.diagnosis("wrong-values", f"{call} returned None", "", "End the function with a return.")
    try:
        if isinstance(yours, str):
            raise TypeError
        slack = max(exercise.rtol * abs(float(expected)), 1e-12 if exercise.rtol else 0.0)
        close = abs(float(yours) - float(expected)) <= slack
    except (TypeError, ValueError, OverflowError, RuntimeError):
        message = f"{call} returned a {type(yours).__name__}"
        return diagnose.diagnosis("wrong-values", message, "", "Return one number.")
    if close:
        return None
    hint = exercise.explain(case.sizes, yours, expected) if exercise.explain else None
    return diagnose.diagnosis(
        "wrong-formula" if hint else "wrong-values",
        f"{call} is {yours!r}, expected {expected!r}",
        "",
        hint or "Work this case out by hand, then compare term by term.",
    )
