"""`lab.evidence`: what a wrong kernel does, case by case, without a word about why."""

from __future__ import annotations

from ..check import names
from ..check.check import _namespace
from ..check.evaluate import PUBLIC_SEED, evaluate
from ..exercises import get
from ..spec.exercise import Exercise, KernelExercise
from ..spec.verdict import CaseResult, Verdict

REPORTED = "an access is reported"


def evidence(exercise_id: str, fn=None) -> None:
    """Print which cases fail, the wrong elements of the first one that has some, and the counts."""
    try:
        exercise = get(exercise_id)
    except KeyError as e:
        print(f"lab.evidence: {e.args[0]}")
        return
    if not isinstance(exercise, KernelExercise):
        print(f"lab.evidence: {exercise.id} has no kernel.")
        return
    if fn is None:
        fn = _namespace().get(exercise.entry)
    if old := names.outdated(fn, exercise.entry) or names.not_built(fn):
        print(old if isinstance(old, str) else "\n".join(old))
        return
    print(text(exercise, evaluate(exercise, fn, seed=PUBLIC_SEED)))


def text(exercise: Exercise, verdict: Verdict) -> str:
    """The evidence in a verdict. Kinds and sentences of its diagnoses are left out: they name the cause."""
    lines = [f"{exercise.id}   ({verdict.backend})"]
    if not verdict.results and verdict.headline:
        return "\n".join([*lines, verdict.headline.symptom])
    for r in verdict.results:
        lines.append(f"  {'✓' if r.passed else '✗'} {r.case}" + (f"   {_what(r)}" if r.diagnosis else ""))
    if any(r.diagnosis and _what(r) == REPORTED for r in verdict.results):
        lines.append(f"\n“{REPORTED}”: it is not allowed, or nothing orders it. The values may be right this time.")
    shown = next((r for r in verdict.results if r.diagnosis and r.diagnosis.details), None)
    if shown:
        lines += [f"\n{shown.case}:", shown.diagnosis.details]
    if bounds := exercise.points.bounds if verdict.counts else ():
        lines.append(f"\nCounted ({verdict.counts['case']}):")
        lines += [b.line(verdict.counts) for b in bounds]
    return "\n".join(lines)


def _what(result: CaseResult) -> str:
    """How a case fails."""
    if result.diagnosis.details or (result.error or 0) > 1:
        return "wrong values"
    if result.error is None:
        return "ended early"
    return REPORTED
