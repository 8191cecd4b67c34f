"""After a failure: what caused it, from evidence. Runs again, hypotheses and recorded accesses refine the headline.

Only the symptom, the advice and the details change, never the kind of a diagnosis or the points. Nothing here runs for
a kernel that passes.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from ..backends import Outcome
from ..spec.exercise import Case, KernelExercise
from ..spec.inputs import Run
from ..spec.verdict import CaseResult, Diagnosis
from . import (
    accesses,
    diagnose,
    hypotheses,
    influence,
    known_mistakes,
    names,
    not_finite,
    patterns,
    placement,
    regions,
    repairs,
    slowness,
    statements,
)
from .compare import Comparison, OutputComparison, most_poison_matches
from .findings import Evidence

UNWRITTEN = ("not-written", "tail-not-written", "first-block-only")
OUTSIDE = ("out-of-bounds", "tail-unmasked")
VALUES = ("wrong-values", "overflow")
SEARCHED = ("error", "does-not-compile", "input-overwritten", "precision")
"""Kinds for which a place in the kernel is looked for at the end."""
THREADS = (
    "missing-syncthreads", "missing-syncwarp", "missing-wait", "uninitialized-shared", "timeout", "race", "deadlock",
)  # fmt: skip

SECONDS = 1.5
"""Time for running the kernel again, on top of as much as the check of a right kernel takes."""

BRIEF = 0.2
"""Seconds that a step gets although the time is over: most runs of a small case need less."""

LEAST_SEARCH = 0.5
"""Seconds that the search for a place has in any case."""

MOST_UNUSED = 3
"""Names that are used nowhere: where there are more, the kernel is not finished."""

SAMPLES = 3
"""Refused cases that a hypothesis must explain."""


ENOUGH = 4
"""Wrong elements that these cases must have together: of a sum, which is one element, more cases are taken."""

ALL = 12
"""Refused cases at most in which a hypothesis is looked at before it is reported."""


LEAST = 4
"""Wrong elements that show a known mistake: any one number fits some."""


@dataclass(frozen=True)
class Tried:
    """One case of a check: its buffers as the kernel left them, what happened, and the result."""

    run: Run
    outcome: Outcome
    result: CaseResult


@dataclass(frozen=True)
class Clock:
    """The time for looking for a cause: `end` by the clock `time.monotonic`."""

    end: float

    def left(self, part: float = 1.0) -> float:
        """Seconds for a step that may take this part of what is left."""
        return max(BRIEF, part * (self.end - time.monotonic()))


def refine(
    exercise: KernelExercise, fn: Callable, found: Diagnosis, tried: list[tuple], seed: int, seconds: float = SECONDS
) -> Diagnosis:
    """The headline with its cause, as far as evidence shows one. `tried` holds (run, outcome, result) of each case."""
    cases = [Tried(*t) for t in tried]
    clock = Clock(time.monotonic() + seconds)
    search = Search(exercise, fn, cases, clock)
    refined = _with_guess(_refined(exercise, fn, found, cases, seed, clock, search), found, cases)
    if exercise.language == "cuda":
        return refined
    refused = sorted((t for t in cases if _same(t, found)), key=_size)
    if found.kind == "does-not-compile":  # what Triton's interpreter refuses too
        refused = _of_kinds(cases, ("error",))
    if not search.done and refused and (found.guess or found.kind in (*VALUES, *SEARCHED)):
        formula = False if found.kind == "input-overwritten" else None
        refined = search(refined, refused, formula, keep=found.kind not in ("error", "input-overwritten"))
    return _with_unused(fn, refined) if refused and not search.found else refined


def _with_unused(fn, found: Diagnosis) -> Diagnosis:
    """With the names of the kernels that are used nowhere: a term that is left out leaves one behind."""
    said = repairs.unused(fn)
    if not said or len(said) > MOST_UNUSED:
        return found
    return replace(found, advice=f"{found.advice} Used nowhere: {', '.join(said)}. Where does it belong?")


class Search:
    """The place in a Triton kernel where one change makes it right, looked for once: a diagnosis with what it says."""

    def __init__(self, exercise: KernelExercise, fn: Callable, tried: list[Tried], clock: Clock):
        self.done = exercise.language != "triton"
        self.found = False
        self._fn, self._clock = fn, clock
        cases = sorted((t for t in tried if not t.result.hidden), key=_size)
        self._passed = [t for t in cases if t.result.passed and _is_quick(t)]
        self._refused = [t for t in cases if t.result.diagnosis]

    def __call__(
        self, found: Diagnosis, refused: list[Tried], formula: bool | None = None, keep: bool = False
    ) -> Diagnosis:
        """The diagnosis itself where no place is found, or there was a search before. `formula`: whether the mistake is
        in a formula, or in what is loaded and stored; `keep`: the advice stays, and the place is added."""
        if self.done:
            return found
        self.done = True
        chosen = [*_spread(self._refused), *_spread(refused)]
        first = [*{id(t): t for t in chosen}.values(), *self._passed[:1]]
        rest = _quick([t for t in (*self._refused, *self._passed) if not any(t is f for f in first)])
        again = [[accesses.again(t.run) for t in c] for c in (first, rest)]
        lines = set(map(int, re.findall(r"\bline (\d+)", found.symptom + found.advice)))
        seconds = max(LEAST_SEARCH, self._clock.left())
        if found.kind == "input-overwritten":
            lines |= {x.number for x in statements.naming(names.texts(self._fn), r"\btl\.(store|atomic_)")}
        place = repairs.find(self._fn, *again, lines, seconds, formula)
        if place is None:
            return found
        self.found = True
        evidence = place.evidence(found.symptom + found.advice)
        if keep or not evidence.cause:
            contradicted = not keep and "mask" in found.advice and not place.is_condition
            return replace(found, advice=place.look if contradicted else f"{found.advice} {place.sentence}")
        return _added(found, evidence)


def _refined(exercise, fn, found: Diagnosis, tried: list[Tried], seed: int, clock: Clock, search: Search) -> Diagnosis:
    if found.kind in ("error", "does-not-compile") and (meant := names.missing(found.symptom, fn)):
        return replace(found, symptom=_with_line(meant[0], found.symptom), advice=meant[1])
    if found.kind == "error" and "must be 16-byte aligned" in found.symptom:
        return _aligned(fn, found)
    refused = sorted((t for t in tried if _same(t, found)), key=_size)
    if not refused:
        return found
    if found.guess and (likelier := _likelier(found, tried)):
        found = likelier
        refused = sorted((t for t in tried if _same(t, found)), key=_size)
    if found.guess:
        found = _fits_more(found, tried)
    if found.guess and _refuted(found, tried) and (plain := _without_guess(refused)):
        values = plain[0].result.diagnosis
        refined = _values(exercise, fn, values, plain, tried, seed, clock, search)
        return replace(refined, kind=found.kind)
    if found.kind in UNWRITTEN and not found.guess:
        return search(_unwritten(fn, found, _shown(refused), clock), refused, formula=False)
    if found.kind in OUTSIDE:
        outside = _outside(fn, found, _shown(refused), clock)
        placed = search(outside, refused, formula=False)
        values = [t for t in _of_kinds(tried, VALUES) if not _reads_outside(t)]
        if placed == outside and len(values) > len(refused):  # where nothing is read outside, the index is wrong too
            said = values[0].result.diagnosis
            inside = _values(exercise, fn, said, values, tried, seed, clock, search, describe=False)
            if inside is not None:
                return replace(inside, kind=found.kind, symptom=f"{inside.symptom}; {placed.symptom}")
        return placed
    if found.kind == "precision":
        passed = sorted((t for t in tried if t.result.passed and not t.result.hidden), key=_size)
        return _explained(found, refused, passed, clock) or _coarse(fn, found, refused)
    finite = [t for t in _of_kinds(tried, ("wrong-values",)) if not _all_strange([t])]
    if found.kind == "overflow" and len(finite) >= len(refused):  # NaN tells less than the wrong numbers
        passed = sorted((t for t in tried if t.result.passed and not t.result.hidden), key=_size)
        if explained := _explained(found, finite, passed, clock):
            return explained
    if found.kind in VALUES:
        return _values(exercise, fn, found, refused, tried, seed, clock, search)
    if exercise.language == "triton" and found.kind == "timeout":
        ended = sorted((t for t in tried if t.outcome.problem is None and t.outcome.launches), key=_size)
        return slowness.out_of_time(fn, found, refused[0].run, [(t.run, t.outcome) for t in ended], clock.left())
    if exercise.language == "cuda" and found.kind in THREADS:
        return _threads(fn, found, refused[0], tried)
    if found.kind == "race":
        return _raced(fn, found, refused, tried, clock, search)
    return found


def _of_kinds(tried: list[Tried], kinds: tuple[str, ...]) -> list[Tried]:
    """The cases with a diagnosis of these kinds, the smallest first."""
    found = [t for t in tried if t.result.diagnosis and t.result.diagnosis.kind in kinds and not t.result.hidden]
    return sorted(found, key=_size)


def _with_guess(refined: Diagnosis, found: Diagnosis, tried: list[Tried]) -> Diagnosis:
    """Where the cause is open: the known mistake that one of the other refused cases shows, if none shows another one
    and no case that passed refutes it."""
    open_ = refined.kind in OUTSIDE or re.match(r"\d+ of \d+ elements", refined.symptom)
    if found.guess or not open_:
        return refined
    shown = [t for t in tried if t.result.diagnosis and t.result.diagnosis.guess and not t.result.hidden]
    shown = [t for t in shown if not _reads_outside(t)]  # what was not read there makes other values
    guesses = {t.result.diagnosis.symptom for t in shown}
    if len(guesses) != 1:
        return refined
    guess = shown[0].result.diagnosis
    own = any(m.sentence.split("{name}")[-1] in guess.symptom for m in shown[0].run.exercise.known_mistakes)
    enough = max(_wrong_elements(t) for t in shown) >= LEAST
    if not enough or not own and len(shown) < 2 or _refuted(guess, tried):
        return refined
    place = f'in the case "{shown[0].run.case.name}"'
    return replace(refined, advice=f"Begin {place}: there {guess.symptom}. {refined.advice}")


def _reads_outside(t: Tried) -> bool:
    return t.outcome is not None and any(f.kind == "out-of-bounds" for f in t.outcome.findings)


def _wrong_elements(t: Tried) -> int:
    comparison = Comparison(t.run)
    return max(int(comparison.output(n).bad.sum()) for n in t.run.outputs)


def _aligned(fn, found: Diagnosis) -> Diagnosis:
    """Of a descriptor's block that starts at the wrong place: where the offsets of that line come from."""
    line = re.search(r"\(line (\d+): `[^`]*\[([^\]]*)\]", found.symptom)
    if line is None:
        return found
    for first, text in names.texts(fn):
        lines, here = text.splitlines(keepends=True), int(line[1]) - first + 1
        if not 0 < here <= len(lines):
            continue
        made = [d for n in re.findall(r"[A-Za-z_]\w*", line[2]) if (d := statements.definition(lines, n, here))]
        if made:
            listed = "; ".join(str(replace(d, number=d.number + first - 1)) for d in made)
            advice = f"It must be a multiple of 16 bytes. The offsets come from {listed}: which blocks are meant?"
            return replace(found, advice=advice)
    return found


ADDED_UP_IN_16_BITS = (
    r"\btl\.(?:zeros|full)\(.*\btl\.b?float16\b|\bout_dtype=tl\.b?float16|\baccumulator\b[^;]*\b(?:half|__half)\b|"
    r"^\s*(?:__half2?|half2?|__nv_bfloat162?)\s+\w+(?:\[\w+\])*\s*=\s*(?:\w+\()?\{?0(?:\.0?)?f?\b"
)
"""A running sum that starts in a type of 16 bits."""

KEEP_WIDE = "Add up in float32, and convert only what is stored."


def _coarse(fn, found: Diagnosis, refused: list[Tried]) -> Diagnosis:
    """Where all arrays of these cases are wider than 16 bits: the line that rounds to 16 bits or to TF32, or that no
    conversion is missing."""
    texts = names.texts(fn)
    if lines := statements.naming(texts, ADDED_UP_IN_16_BITS):
        return replace(found, advice=f"{lines[0]} holds a running sum in 16 bits, so each step rounds it. {KEEP_WIDE}")
    floats = [[b.view for b in t.run.buffers.values() if b.view.is_floating_point()] for t in refused]
    if not any(views and min(v.element_size() for v in views) >= 4 for views in floats):
        if lines := statements.naming(texts, r"^(?!.*\btl\.store\().*\.to\(tl\.b?float16\)"):
            named = f"{lines[0]} rounds to 16 bits before the end: only what the exercise lets have 16 bits may."
            return replace(found, advice=f"{found.advice} {named}")
        return found
    if lines := statements.naming(texts, r"\b(?:b?float16|__half2?|__nv_bfloat162?|half2?|bfloat16)\b|__float2half"):
        named = f"Some cases have only arrays wider than 16 bits, and a type of 16 bits is named on {lines[0]}."
        return replace(found, advice=f"{found.advice} {named}")
    if lines := statements.naming(texts, r"\btl\.dot\((?!.*\bieee\b)"):
        advice = f'tl.dot rounds fp32 operands to TF32 (10 bits) unless it gets input_precision="ieee": {lines[0]}.'
        return replace(found, advice=advice)
    advice = (
        "Some cases have only arrays of fp32 or wider, and no line names a type of 16 bits: no conversion is missing. "
        "Look for a difference of nearly equal numbers, such as the mean of x² minus the squared mean."
    )
    return replace(found, advice=advice)


def _raced(fn, found: Diagnosis, refused: list[Tried], tried: list[Tried], clock: Clock, search: Search) -> Diagnosis:
    """Of programs in Triton: a counter that announces what is not there yet, or the place of a change."""
    race = next((f for f in refused[0].outcome.findings if f.kind == "race"), None)
    if race is not None and race.access == "load":
        seen = accesses.record(fn, accesses.again(refused[0].run), clock.left())
        if early := placement.waits_by_changing(seen) or placement.raised_early(race.array, seen):
            return _added(found, early)
    placed = search(found, refused, formula=False)
    return _unordered(found, tried) if placed == found else placed


def _unordered(found: Diagnosis, tried: list[Tried]) -> Diagnosis:
    """With the smallest case, if there is one, that is wrong although nothing races there: an atomic would not help."""

    def alone(t: Tried) -> bool:
        raced = t.outcome.unstable or any(f.kind == "race" for f in t.outcome.findings)
        return not raced and (t.result.diagnosis.guess or t.result.diagnosis.kind in VALUES)

    said = [t for t in sorted(tried, key=_size) if t.result.diagnosis and not t.result.hidden]
    if not said or not alone(said[0]):
        return found
    larger = [t for t in said if alone(t)]
    first = next((t for t in larger if max(b.view.numel() for b in t.run.outputs.values()) > 1), larger[0])
    return replace(
        found,
        advice=f'Begin with the case "{first.run.case.name}": it is wrong too, and no two programs meet in it. What is '
        "stored there that should not be, or where? The other programs' elements may be hit by the same mistake.",
        details=first.result.diagnosis.details,
    )


def _threads(fn, found: Diagnosis, first: Tried, tried: list[Tried]) -> Diagnosis:
    """Of CUDA C++: threads that meet, shared memory that nobody wrote, loops without end."""
    sources = [text for _, text in names.texts(fn)]
    if found.kind == "timeout":
        line = re.search(r"\(line (\d+)", found.symptom)
        why = placement.endless(int(line[1]), sources) if line else None
        if why and any(t.outcome.problem is None and t.outcome.launches for t in tried):
            why = replace(why, cause=f"{why.cause}; other cases came to an end, so the kernel may be slow, not endless")
        return _added(found, why)
    finding = next((f for f in first.outcome.findings if f.kind == found.kind), None)
    if finding is None:
        return found
    if found.kind == "deadlock":
        return _added(found, placement.stuck(found.symptom, finding.line or 0, sources))
    if found.kind == "missing-wait":
        return _added(found, placement.unwaited(finding.sentence(), finding.line or 0, sources))
    if found.kind == "uninitialized-shared":
        return _added(found, placement.not_initialised(finding.array.split("[")[0], sources))
    if found.kind == "race":
        return _added(found, placement.same_element(finding.array, finding.line, sources))
    return _added(found, placement.conflict(finding.line, finding.message, sources))


def _quick(tried: list[Tried]) -> list[Tried]:
    """The smallest of these cases that take no longer together than a repair may be tried in them."""
    ordered = sorted(tried, key=_size)
    together = itertools.accumulate(t.outcome.seconds for t in ordered)
    return [t for t, seconds in zip(ordered, together, strict=True) if seconds <= repairs.ALL / 2]


def _spread(refused: list[Tried]) -> list[Tried]:
    """The smallest case of more than one element, and one that is larger."""
    larger = [t for t in refused if min(b.view.numel() for b in t.run.outputs.values()) > 1] or refused
    quick = [t for t in larger[1:] if _is_quick(t)]
    return [larger[0], *quick[len(quick) // 2 :][:1]]


def _is_quick(t: Tried) -> bool:
    return t.outcome.seconds < repairs.EACH / 4


def _refuted(found: Diagnosis, tried: list[Tried]) -> bool:
    """Would the known mistake that this names have changed a case that passed?"""
    passed = sorted((t for t in tried if t.result.passed and not t.result.hidden), key=_size)
    comparisons = (Comparison(t.run) for t in _few(passed))
    return any(known_mistakes.refuted(found.symptom, c, c.output(n)) for c in comparisons for n in c.run.outputs)


def _fits_more(found: Diagnosis, tried: list[Tried]) -> Diagnosis:
    """The exercise's known mistake of the same kind that fits the most refused cases and would have changed no case
    that passed; of equals the guess itself. From a case in which another mistake would not look the same, if any."""
    fits: dict[str, list[Diagnosis]] = {}
    for t in [t for t in _of_kinds(tried, (found.kind, *VALUES)) if _size(t) <= hypotheses.LARGEST][:ALL]:
        comparison, said = Comparison(t.run), {}
        for output in (o for n in t.run.outputs if (o := comparison.output(n)).bad.any()):
            for m in (m for m in known_mistakes.fitting(comparison, output) if m.diagnosis == found.kind):
                doubtful = known_mistakes.barely(m, comparison, output)
                said.setdefault(m.sentence, diagnose.from_mistake(m, output, doubtful))
        for sentence, diagnosis in said.items():
            fits.setdefault(sentence, []).append(diagnosis)
    symptom, outputs = found.symptom.removesuffix(known_mistakes.SAME), tried[0].run.outputs
    own = next((s for s in fits if any(s.format(name=n) == symptom for n in outputs)), None)
    if own is None:  # a mistake that any kernel can make
        return found
    often = sorted(fits, key=lambda s: (-len(fits[s]), s != own))
    best = next((s for s in often if not _refuted(fits[s][0], tried)), own)
    sure = next((d for d in fits[best] if not d.symptom.endswith(known_mistakes.SAME)), fits[best][0])
    return sure if best != own or found.symptom != symptom else found


def _without_guess(refused: list[Tried]) -> list[Tried]:
    """These cases with what their wrong values show by themselves, without the table of known mistakes."""
    found = []
    for t in refused:
        comparison = Comparison(t.run)
        outputs = [comparison.output(name) for name in t.run.outputs]
        shown = next(
            (diagnose.from_values(comparison, o, bad) for o in outputs if (bad := o.bad & ~o.unwritten).any()), None
        )
        if shown is not None and shown.kind in VALUES:
            found.append(replace(t, result=replace(t.result, diagnosis=shown)))
    return found


def _likelier(found: Diagnosis, tried: list[Tried]) -> Diagnosis | None:
    """A known mistake that explains fewer cases than it leaves open is a coincidence: what these say instead."""
    said = [t.result.diagnosis for t in tried if t.result.diagnosis and not t.result.hidden]
    open_ = [d for d in said if d.kind in VALUES]
    return open_[0] if len(open_) > sum(d.symptom == found.symptom for d in said) else None


def _with_line(symptom: str, before: str) -> str:
    """A symptom with the line that an earlier one named."""
    return symptom + (before[before.rindex(" (line ") :] if " (line " in before else "")


def _same(t: Tried, found: Diagnosis) -> bool:
    return t.result.diagnosis is not None and t.result.diagnosis.kind == found.kind and not t.result.hidden


def _size(t: Tried) -> int:
    return sum(b.view.numel() for b in t.run.buffers.values())


def _shown(refused: list[Tried]) -> Tried:
    """The smallest case that shows something: a single element has neither rows nor a tail."""
    larger = [t for t in refused if min(b.view.numel() for b in t.run.outputs.values()) > 1] or refused
    return next((t for t in larger if all(n > 1 for b in t.run.outputs.values() for n in b.view.shape)), larger[0])


def _in_case(t: Tried) -> str:
    return f' (case "{t.run.case.name}")'


def _added(found: Diagnosis, evidence: Evidence | None, name: str = "") -> Diagnosis:
    """A diagnosis with what the evidence says behind its symptom, or in its place."""
    if evidence is None:
        return found
    cause = evidence.cause.replace("{name}", name)
    symptom = cause if evidence.replaces else f"{found.symptom}: {cause}" if cause else found.symptom
    return replace(found, symptom=symptom, advice=(evidence.advice or found.advice).replace("{name}", name))


# --- unwritten elements, accesses outside of an array --------------------------------------------------------------


def _unwritten(fn, found: Diagnosis, shown: Tried, clock: Clock) -> Diagnosis:
    base, comparison = shown.result.diagnosis, Comparison(shown.run)
    for name in shown.run.outputs:
        missing = comparison.output(name).unwritten
        if missing.any() and base.symptom and name in base.symptom:
            seen = accesses.record(fn, accesses.again(shown.run), clock.left())
            return _added(base, placement.unwritten(shown.run, name, missing, seen), name)
    return found


def _outside(fn, found: Diagnosis, shown: Tried, clock: Clock) -> Diagnosis:
    base = shown.result.diagnosis
    wanted = [f for f in shown.outcome.findings if f.kind == "out-of-bounds" and f.sentence() == base.symptom]
    if not wanted or wanted[0].index is None or not wanted[0].line:
        return found
    f = wanted[0]
    if getattr(f, "overflowed", False):
        return base
    seen = accesses.record(fn, accesses.again(shown.run), clock.left())
    evidence = placement.outside(shown.run, f.array, f.index, getattr(f, "access", ""), f.line, seen)
    return _added(base, evidence)


# --- wrong values --------------------------------------------------------------------------------------------------


def _values(
    exercise,
    fn,
    found: Diagnosis,
    refused: list[Tried],
    tried: list[Tried],
    seed: int,
    clock: Clock,
    search: Search,
    describe: bool = True,
) -> Diagnosis | None:
    """What wrong values come from. Without `describe` nothing where no cause is found."""
    passed = sorted((t for t in tried if t.result.passed and not t.result.hidden), key=_size)
    if not _all_strange(refused) and (explained := _explained(found, refused, passed, clock)):
        return search(explained, refused, keep=True)
    shown = _shown(refused)
    comparison = Comparison(shown.run)
    outputs = {n: comparison.output(n) for n in shown.run.outputs}
    name = next((n for n, o in outputs.items() if (o.bad & ~o.unwritten).any()), None)
    if name is None:
        return found if describe else None
    base, output = shown.result.diagnosis, outputs[name]
    if output.is_strange():  # what is not finite moves with nothing
        return _not_finite(fn, base, shown, output, refused, tried, clock, search) if describe else None
    studied = influence.study(exercise, fn, shown.run.case, seed, clock.left(1 if search.done else 1 / 3))
    moves = studied.moves
    formula = influence.is_right(moves[name], output.bad) if moves else None
    said = replace(base, symptom=base.symptom + _in_case(shown))
    if (placed := search(said, refused, formula)) != said:
        return placed
    right = _right_outputs(outputs, refused)
    innocent = {m.group.array for n in right for m in moves.get(n, ()) if m.must.any()}
    its = [m for m in moves.get(name, ()) if m.group.array not in innocent]
    if its and (story := influence.story(name, its, output.bad, studied)):
        if story.nothing and (other := _in_a_larger_case(exercise, fn, name, refused, shown, seed, clock)):
            shown, story = other
            base = shown.result.diagnosis
        if exercise.language == "cuda":
            story = _with_loads(fn, story)
        return _added(replace(base, symptom=base.symptom + _in_case(shown) + _also_right(right)), story, name)
    if not describe:
        return None
    return _described(base, shown, output, tried, bool(formula), right)


def _in_a_larger_case(
    exercise, fn, name: str, refused: list[Tried], shown: Tried, seed: int, clock: Clock
) -> tuple[Tried, Evidence] | None:
    """What an output depends on in another refused case, where in the smallest it depends on nothing."""
    larger = [t for t in refused if _size(t) > _size(shown)]
    t = larger[len(larger) // 2] if larger else None
    if t is None or _size(t) > hypotheses.LARGEST:
        return None
    output = Comparison(t.run).output(name)
    studied = influence.study(exercise, fn, t.run.case, seed, clock.left())
    story = influence.story(name, studied.moves.get(name, []), output.bad, studied) if output.bad.any() else None
    return (t, story) if story is not None and not story.nothing else None


def _with_loads(fn, story: Evidence) -> Evidence:
    """Of CUDA C++: with the lines that read the array whose elements are missing, and the conditions on the way."""
    for _, source in names.texts(fn) if story.array else ():
        loads = [x for x in statements.uses(source, story.array) if not re.search(r"\bfor\s*\(", x.text)]
        if not loads:
            continue
        guard = statements.guard(source, loads[0].number)
        under = [x for x in (guard, *statements.enclosing_loops(source, loads[0].number)[:1]) if x is not None]
        said = f"{story.array} is read on {loads[0]}"
        if under := list(dict.fromkeys(x for x in under if x != loads[0])):
            said += f", under {' and '.join(map(str, under))}: for which indices is that true?"
        else:
            said += "."
        return replace(story, advice=f"{story.advice} {said}")
    return story


def _right_outputs(outputs: dict[str, OutputComparison], refused: list[Tried]) -> list[str]:
    """Outputs that are right in the refused cases, of which another one is wrong."""
    right = [n for n, o in outputs.items() if not o.bad.any()]
    for t in refused[:SAMPLES] if right else ():
        comparison = Comparison(t.run)
        right = [n for n in right if not comparison.output(n).bad.any()]
    return right


def _also_right(right: list[str]) -> str:
    if len(right) == 1:
        return f", {right[0]} is right"
    return f", {' and '.join(right)} are right" if right else ""


def _explained(found: Diagnosis, refused: list[Tried], passed: list[Tried], clock: Clock) -> Diagnosis | None:
    """A hypothesis that gives the learner's outputs in the smallest refused cases, and changes none that passed."""
    samples = _samples(refused)
    if not samples:
        return None
    shown, _, output = samples[-1]
    right = [(c, c.output(output.name)) for c in (Comparison(t.run) for t in _few(passed))]

    @functools.cache
    def others() -> list[hypotheses.Sample]:
        more = _samples([t for t in refused if _size(t) <= hypotheses.LARGEST], ALL)[len(samples) :]
        return [(c, o) for _, c, o in more if o.got.isfinite().all()]

    evidence = hypotheses.find([(c, o) for _, c, o in samples], clock.left(), right=right, others=others)
    if evidence is None:
        return None
    return _added(replace(found, details=shown.result.diagnosis.details), evidence, output.name)


def _all_strange(refused: list[Tried]) -> bool:
    """Is something wrong in each of the refused cases that is not finite? What arose from it tells nothing more."""

    def strange(t: Tried) -> bool:
        comparison = Comparison(t.run)
        outputs = [comparison.output(n) for n in t.run.outputs]
        return any(o.is_strange() for o in outputs)

    return all(strange(t) for t in refused[:SAMPLES])


def _few(passed: list[Tried]) -> list[Tried]:
    """Cases that passed: the smallest, for each fill and layout one, the others by size."""
    kinds = {(t.run.case.fill, t.run.case.layout): t for t in reversed(passed)}
    return sorted(kinds.values(), key=_size)[: 3 * SAMPLES] + passed[1:SAMPLES]


def _samples(refused: list[Tried], least: int = SAMPLES) -> list[tuple[Tried, Comparison, OutputComparison]]:
    """The smallest refused cases of more than one element, with the output that is refused in all of them: `least` and
    more until enough elements are wrong."""
    larger = [t for t in refused if min(b.view.numel() for b in t.run.outputs.values()) > 1] or refused
    name, found = None, []
    for t in larger:
        if len(found) >= min(least, ALL) and sum(int(o.bad.sum()) for _, _, o in found) >= ENOUGH:
            break
        comparison = Comparison(t.run)
        for n in t.run.outputs if name is None else [name]:
            output = comparison.output(n)
            if output.bad.any() and output.unwritten.sum() <= most_poison_matches(output.buffer.view):
                name = n
                found.append((t, comparison, output))
                break
    return found


def _described(
    base: Diagnosis, shown: Tried, output: OutputComparison, tried: list[Tried], studied: bool, right: list[str]
) -> Diagnosis:
    """No cause is known: where it is wrong, in which cases, and what has been ruled out."""
    parts = [patterns.where(output.name, output.bad)]
    failing, passing = _all_cases(tried)
    cases = patterns.apart(failing, passing)
    parts.append(cases)
    advice = base.advice
    if studied:
        parts.append("each element depends on the right elements of the inputs")
        advice = "The right elements are used, so look at what is computed from them: " + _by_hand(output)
    if cases:
        advice = patterns.advice(failing, passing) or advice
    if right and not cases:
        others = " and ".join(right)
        advice = (
            f"Look at the steps that only {output.name} needs, and at what cancels out in {others}, such as a maximum "
            f"or a common factor. {advice}"
        )
    said = "; ".join(p for p in parts if p)
    symptom = base.symptom + _in_case(shown) + _also_right(right) + (f": {said}" if said else "")
    return replace(base, symptom=symptom, advice=advice)


def _all_cases(tried: list[Tried]) -> tuple[list[Case], list[Case]]:
    """The public cases that are refused, for whatever reason, and those that passed."""
    public = [t for t in tried if not t.result.hidden]
    return [t.run.case for t in public if t.result.diagnosis], [t.run.case for t in public if t.result.passed]


def _by_hand(output: OutputComparison) -> str:
    index = output.bad.nonzero()[0].tolist()
    yours, right = float(output.got[tuple(index)]), float(output.expected[tuple(index)])
    place = regions.element(output.name, index)
    return (
        f"compute {place} by hand step by step, and print your intermediate values; it is {yours:.6g}, not {right:.6g}."
    )


def _not_finite(
    fn, base: Diagnosis, shown: Tried, output: OutputComparison, refused, tried, clock, search: Search
) -> Diagnosis:
    """inf or NaN: in which cases, the operation that made it, or else the lines that can make it."""
    strange = output.bad & ~output.got.isfinite() & output.expected.isfinite()
    if not strange.any():
        strange = output.bad
    first = regions.element(output.name, strange.nonzero()[0].tolist())
    cases = patterns.apart(*_all_cases(tried))
    symptom = f"{base.symptom}{_in_case(shown)}, first {first}" + (f"; {cases}" if cases else "")
    if shown.run.exercise.language == "triton":
        nan = bool(output.got[strange].isnan().any())
        if nan and (infinite := not_finite.infinite_operand(names.texts(fn))):
            return replace(base, symptom=f"{symptom}; {infinite.cause}", advice=infinite.advice)
        events = not_finite.trace(fn, accesses.again(shown.run), clock.left())
        inputs = [v for v in shown.run.inputs().values() if isinstance(v, torch.Tensor)]
        finite = all(not v.isinf().any() for v in inputs)
        if made := not_finite.evidence(events or [], nan, linecache.getlines, finite):
            return search(replace(base, symptom=f"{symptom}; {made.cause}", advice=made.advice), refused)
        if nan and events is not None and all(e.what != "invalid" for e in events):
            loaded = not_finite.loaded(names.texts(fn))
            base, symptom = replace(base, advice=loaded.advice), f"{symptom}; {loaded.cause}"
            return search(replace(base, symptom=symptom), refused)
    placed = search(replace(base, symptom=symptom), refused)
    lines = statements.risky(names.texts(fn))
    if not lines or placed.advice != base.advice:
        return placed
    listed = "; ".join(f"{line} ({why})" for line, why in lines[:3])
    return replace(base, symptom=symptom, advice=f"These lines can make it: {listed}. Print what goes into them.")
