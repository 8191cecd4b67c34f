"""Why a plain function returns the wrong number: run again on more arguments, not guessed from one result.

A cause is named if the reference with that mistake returns the learner's number in every call, the right ones too.
Where no cause fits, each argument is doubled by itself: those that move the learner's result in another way than the
right one are where the mistake is.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..backends import child
from ..spec.exercise import Case, PlainExercise
from ..spec.verdict import Diagnosis
from . import evaluate, patterns, plain_repairs
from .findings import Evidence

DRAWN = 12
"""Calls with drawn arguments, beside the exercise's own cases."""

SECONDS = 1.0
"""Time limit of one call."""

CLOSE = 1e-6
"""Relative difference up to which a suspected cause gives the learner's number."""

Sizes = dict[str, Any]
Formula = Callable[[Sizes, float], float]
"""What a mistake makes of arguments and of the right result."""


@dataclass(frozen=True)
class Call:
    """One call: the arguments, what the learner's function returned, and the right result."""

    sizes: Sizes
    yours: float
    right: float
    wrong: bool


@dataclass(frozen=True)
class Tried:
    """One call as the check judges it: what is wrong with it, or None, and the sentences of the exercise that fit it,
    the likeliest first."""

    case: Case
    diagnosis: Diagnosis | None
    fitting: list[str]


def refine(exercise: PlainExercise, fn: Callable, found: Diagnosis, tried: list[Tried]) -> Diagnosis:
    """The diagnosis of a wrong result with its cause, as far as more calls and small changes show one."""
    if found.kind not in ("wrong-formula", "wrong-values"):
        return found
    is_number = exercise.reference is not None and ", expected " in found.symptom
    if found.kind == "wrong-values" and not is_number:
        return found
    found = _likeliest(found, tried)
    more = [*tried, *_more(exercise, fn)]
    refused = [t for t in more if t.diagnosis is not None]
    agreed = _agreed(found, refused) if found.kind == "wrong-formula" else 0.0
    shown = len(refused) > 1 or not exercise.draw
    if not is_number or agreed == 1 and shown:
        return found  # a place beside the exercise's own sentence might be another one than where that leads
    place = None if agreed > HALF and shown else _place(exercise, fn, more)
    doublings = [] if exercise.draw else _doublings(tried)
    calls = _calls(exercise, fn, [*(dict(t.case.sizes) for t in more), *doublings])
    if not any(c.wrong for c in calls):  # it returns NaN, or no number
        return replace(found, advice=f"{place.sentence} {place.advice}") if place else found
    cause = _cause(exercise, calls)
    if place and cause:
        cause = Evidence(cause.cause, f"{place.sentence} {place.advice}")
    elif place:
        cause = Evidence(place.cause, place.advice)
    if cause is None and agreed <= HALF:
        cause = _described(exercise, fn, calls) or Evidence("", WORK_OUT)  # what one case says is a coincidence
    if cause is None:
        return found
    symptom = f"{found.symptom}: {cause.cause}" if cause.cause else found.symptom
    return replace(found, symptom=symptom, advice=cause.advice or found.advice)


HALF = 0.5
"""The share of the refused calls, drawn ones too, up to which a sentence of the exercise is a coincidence."""

WORK_OUT = "Work this case out by hand, then compare term by term."


def _more(exercise: PlainExercise, fn: Callable) -> list[Tried]:
    """What the check says of drawn arguments, as many as there is time for."""
    cases = [Case("", sizes) for sizes in _drawn(exercise)]
    jobs = [functools.partial(evaluate.one_plain, exercise, fn, case) for case in cases]
    found, end = [], time.monotonic() + SECONDS
    for case, result in zip(cases, child.run(jobs, SECONDS), strict=False):
        if isinstance(result, str):  # it hung or died
            break
        found.append(Tried(case, Diagnosis(**result["diagnosis"]) if result["diagnosis"] else None, result["fitting"]))
        if time.monotonic() > end:
            break
    return found


def _place(exercise: PlainExercise, fn: Callable, tried: list[Tried]) -> plain_repairs.Place | None:
    """The place in the function's text where one change makes every call right."""
    cases = [t.case for t in sorted(tried, key=lambda t: t.diagnosis is None)]
    tests = [functools.partial(_is_right, exercise, case, exercise.arguments(case)) for case in cases]
    return plain_repairs.find(fn, tests)


def _is_right(exercise: PlainExercise, case: Case, arguments: Mapping[str, Any], fn: Callable) -> bool:
    given = copy.deepcopy(arguments)
    attempt = child.attempt(fn, given.values())
    return not attempt.problem and evaluate.compare_plain(exercise, case, attempt.returned, given) is None


def _likeliest(found: Diagnosis, tried: list[Tried]) -> Diagnosis:
    """The diagnosis with the advice that fits most of the refused cases, of those that fit its own."""
    fitting = [t.fitting for t in tried]
    own = next((sentences for sentences in fitting if found.advice in sentences), [])
    often = Counter(word for sentences in fitting for word in {_words(s) for s in sentences})
    best = max(own, key=lambda s: often[_words(s)], default=found.advice)  # the first of equals
    return replace(found, advice=best)


def _words(sentence: str) -> str:
    """A sentence apart from the numbers in it."""
    return re.sub(r"\d[\d.]*", "0", sentence)


def _agreed(found: Diagnosis, refused: list[Tried]) -> float:
    """The share of the refused calls that get the exercise's own advice too, apart from the numbers in it. What only
    one says is a coincidence."""
    said = _words(found.advice)
    return sum(said in {_words(s) for s in (t.diagnosis.advice, *t.fitting)} for t in refused) / len(refused)


def _drawn(exercise: PlainExercise) -> Iterator[Sizes]:
    rng = random.Random(0)
    for _ in range(DRAWN if exercise.draw else 0):
        yield dict(exercise.draw(rng))


def _doublings(tried: list[Tried]) -> Iterator[Sizes]:
    """The exercise's own arguments, each number of them doubled in turn: where no others can be drawn."""
    for sizes in [dict(t.case.sizes) for t in tried[:DRAWN]]:
        for n, value in sizes.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool) and value:
                yield {**sizes, n: 2 * value}


def _calls(exercise: PlainExercise, fn: Callable, points: list[Sizes]) -> list[Call]:
    """The calls that return a number, where the reference has one."""
    known = [(p, right) for p in points if (right := _number(lambda p=p: exercise.reference(**p))) is not None]
    jobs = [functools.partial(_returned, exercise, fn, p) for p, _ in known]
    calls = []
    for (sizes, right), result in zip(known, child.run(jobs, SECONDS), strict=False):
        if isinstance(result, str):  # it hung or died
            break
        if (yours := result["number"]) is not None:
            slack = max(exercise.rtol * abs(right), 1e-12 if exercise.rtol else 0.0)
            calls.append(Call(sizes, yours, right, abs(yours - right) > slack))
    return calls


def _returned(exercise: PlainExercise, fn: Callable, sizes: Sizes) -> dict:
    arguments: Mapping[str, Any] = exercise.make(**sizes) if exercise.make else sizes
    attempt = child.attempt(fn, arguments.values())
    return {"number": None if attempt.problem else _number(lambda: attempt.returned)}


def _number(value: Callable[[], Any]) -> float | None:
    try:
        number = float(value())
    except (TypeError, ValueError, ArithmeticError, RuntimeError, LookupError):
        return None
    return number if math.isfinite(number) else None


# --- causes that are run -------------------------------------------------------------------------------------------


ALWAYS_THE_SAME = (
    "If the formula names the arguments, they cancel out: a term is missing, or is counted more or less often than it "
    "should be. Write down for each term with which arguments it grows."
)
ALWAYS_ZERO = (
    "Print each intermediate result: which is 0 first? // rounds a quotient below 1 to 0, and what is never added, "
    "stored or reached leaves 0 too."
)


def _cause(exercise: PlainExercise, calls: list[Call]) -> Evidence | None:
    """The first suspected cause that gives the learner's number in every call."""
    wrong = [c for c in calls if c.wrong]
    if len({c.yours for c in calls}) == 1 and len({c.right for c in calls}) > 1 and len(calls) > 2:
        said = f"the result is {calls[0].yours:.6g} in every call, whatever the arguments"
        return Evidence(said, ALWAYS_ZERO if not calls[0].yours else ALWAYS_THE_SAME)
    for evidence, formula in _suspected(exercise, wrong):
        given = [_number(lambda c=c, formula=formula: formula(c.sizes, c.right)) for c in calls]
        known = [(c, g) for c, g in zip(calls, given, strict=True) if g is not None]
        telling = [c for c, g in known if c.wrong]
        if len({c.right for c in telling}) < 2 or len(known) < 0.8 * len(calls):
            continue
        if len({c.yours for c in telling}) < 2:  # one number is what many formulas give
            continue
        if all(math.isclose(g, c.yours, rel_tol=CLOSE, abs_tol=1e-12) for c, g in known):
            return evidence
    return None


def _suspected(exercise: PlainExercise, wrong: list[Call]) -> Iterator[tuple[Evidence, Formula]]:
    names = [n for n, v in wrong[0].sizes.items() if isinstance(v, (int, float)) and not isinstance(v, bool)]
    yield from _of_result(names, wrong)
    yield from _of_arguments(exercise, names)


def _of_arguments(exercise: PlainExercise, names: list[str]) -> Iterator[tuple[Evidence, Formula]]:
    """The reference with other arguments."""

    def with_(change: Callable[[Sizes], Sizes]) -> Formula:
        return lambda sizes, _: exercise.reference(**{**sizes, **change(sizes)})

    for n in names:
        for value in (0, 1):
            yield (
                Evidence(
                    f"{n} has no effect, as if it were always {value}",
                    f"Use {n} in the formula. If you do, it cancels out there.",
                ),
                with_(lambda s, n=n, value=value: {n: value}),
            )
    for a, b in itertools.combinations(names, 2):
        yield (
            Evidence(f"{a} and {b} are exchanged", f"Check which place in the formula is {a}'s."),
            with_(lambda s, a=a, b=b: {a: s[b], b: s[a]}),
        )
    for a, b in itertools.permutations(names, 2):
        yield (
            Evidence(f"it uses {b} where {a} belongs", f"Check each place where the formula needs {a}."),
            with_(lambda s, a=a, b=b: {a: s[b]}),
        )
    for n in names:
        for text, changed in ((f"{n} + 1", lambda v: v + 1), (f"{n} − 1", lambda v: v - 1),
                              (f"2 · {n}", lambda v: 2 * v), (f"{n} / 2", lambda v: v // 2)):  # fmt: skip
            yield (
                Evidence(f"it uses {text} where {n} belongs", f"Check the term with {n}."),
                with_(lambda s, n=n, changed=changed: {n: changed(s[n])}),
            )


def _of_result(names: list[str], wrong: list[Call]) -> Iterator[tuple[Evidence, Formula]]:
    """The right result times, or plus, something; or a function of it."""
    first = next((c for c in wrong if c.right), None)
    if first is not None and first.yours:
        factor = first.yours / first.right
        inverse = f" (1/{1 / factor:.6g})" if abs(factor) < 1 and math.isclose(1 / factor, round(1 / factor)) else ""
        yield (
            Evidence(
                f"every result is {factor:.6g}{inverse} times the right one",
                "Look for a constant factor that is missing, doubled or inverted: a unit, a count, reads or writes.",
            ),
            lambda _, y: y * factor,
        )
    offset = wrong[0].yours - wrong[0].right
    yield (
        Evidence(
            f"every result is {abs(offset):.6g} too {'large' if offset > 0 else 'small'}",
            "Look for a term that is added once too often or left out, and for counting from 1 in place of 0.",
        ),
        lambda _, y: y + offset,
    )
    for n in names:
        for text, power in ((f"{n}", 1), (f"1/{n}", -1), (f"{n}²", 2), (f"1/{n}²", -2), (f"√{n}", 0.5)):
            missing = f"divide by {n}" if power > 0 else f"multiply by {n}"
            yield (
                Evidence(
                    f"every result is {text} times the right one",
                    f"Check how often the formula should {missing}.",
                ),
                lambda s, y, n=n, power=power: y * float(s[n]) ** power,
            )
        for sign, word, advice in ((1, "large", f"{n} is added once too often"), (-1, "small", f"add {n} once more")):
            yield (
                Evidence(
                    f"every result is too {word} by {n}", f"Compare the terms of the sum with the text: {advice}."
                ),
                lambda s, y, n=n, sign=sign: y + sign * s[n],
            )
    functions: tuple[tuple[str, str, Callable[[float], float]], ...] = (
        ("it is 1 / the right result", "Exchange numerator and denominator.", lambda y: 1 / y),
        ("it is 1 − the right result", "The rest is returned: subtract it from 1.", lambda y: 1 - y),
        ("it has the wrong sign", "Exchange the two sides of the difference.", lambda y: -y),
        ("it is the right result rounded down", "Return the number itself: use / and not //.", math.floor),
        ("it is the right result rounded up", "Return the number itself, without rounding.", math.ceil),
        ("it is the right result rounded", "Return the number itself, without rounding.", round),
        ("it is the square of the right result", "A square root is missing.", lambda y: y * y),
        ("it is the square root of the right result", "A square root is too many.", math.sqrt),
    )
    for sentence, advice, function in functions:
        yield Evidence(sentence, advice), lambda _, y, function=function: function(y)


# --- no cause fits: which calls, and which arguments ---------------------------------------------------------------


def _described(exercise: PlainExercise, fn: Callable, calls: list[Call]) -> Evidence | None:
    refused, passed = ([Case("", c.sizes) for c in calls if c.wrong is wrong] for wrong in (True, False))
    parts = [_one_off(calls), patterns.apart(refused, passed, in_blocks=False)]
    sizes = next((c.sizes for c in calls if c.wrong), None)
    doubled = _doubled(exercise, fn, sizes)
    follows = [d.name for d in doubled if d.is_same or d.grows]
    departs = sorted((d for d in doubled if d.name not in follows), key=lambda d: -d.distance)
    shares = [d for d in doubled if d.grows and not d.is_same]
    advice = ""
    if departs:
        first = departs[0]
        changes = f"{_changed(first.right, 'the right result')} and {_changed(first.yours, 'yours')}"
        parts.append(f"doubling {first.name} here {changes}")
        advice = f"Look at the terms with {_listed([d.name for d in departs])}"
        advice += f"; a change of {_listed(follows)} alone has the right effect here." if follows else "."
    elif shares:
        parts.append(f"doubling {shares[0].name} here adds the right amount, {shares[0].growth:.6g}")
        advice = f"The terms with {_listed([d.name for d in shares])} are right: a term without is missing or wrong."
    said = "; ".join(p for p in parts if p)
    return Evidence(said, advice) if said else None


def _one_off(calls: list[Call]) -> str:
    """Results that are one too small or too large in some calls: rounding."""
    wrong = [c for c in calls if c.wrong]
    differences = {round(c.yours - c.right, 9) for c in wrong}
    if len(wrong) == len(calls) or len(wrong) < 2 or differences not in ({1.0}, {-1.0}):
        return ""
    word, rounded = ("large", "up") if 1.0 in differences else ("small", "down")
    return f"in {len(wrong)} of {len(calls)} calls the result is 1 too {word}, as if it were rounded {rounded} there"


@dataclass(frozen=True)
class Doubled:
    """What doubling an argument does: the factors by which it multiplies the right result and the learner's, and what
    it adds to them."""

    name: str
    right: float
    yours: float
    right_growth: float
    growth: float

    @property
    def is_same(self) -> bool:
        return math.isclose(self.right, self.yours, rel_tol=0.01)

    @property
    def grows(self) -> bool:
        """Does it add what it must? Then the terms with it are right, whatever others there are."""
        return bool(self.growth) and math.isclose(self.right_growth, self.growth, rel_tol=1e-6)

    @property
    def distance(self) -> float:
        """How far the factors are apart, on a scale of ratios."""
        return abs(math.log(max(abs(self.right / self.yours), 1e-9))) if self.yours else math.inf


def _doubled(exercise: PlainExercise, fn: Callable, sizes: Sizes) -> list[Doubled]:
    """What doubling does, for each argument that is a number and not 0."""
    names = [n for n, v in sizes.items() if isinstance(v, (int, float)) and not isinstance(v, bool) and v]
    calls = _calls(exercise, fn, [sizes, *({**sizes, n: 2 * sizes[n]} for n in names)])
    if not calls or calls[0].sizes != sizes or not calls[0].right or not calls[0].yours:
        return []
    old, found = calls[0], []
    for c in calls[1:]:
        name = next(n for n in names if c.sizes[n] != sizes[n])
        found.append(Doubled(name, c.right / old.right, c.yours / old.yours, c.right - old.right, c.yours - old.yours))
    return found


def _changed(factor: float, what: str) -> str:
    return (
        f"does not change {what}" if math.isclose(factor, 1.0, rel_tol=0.01) else f"multiplies {what} by {factor:.4g}"
    )


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
