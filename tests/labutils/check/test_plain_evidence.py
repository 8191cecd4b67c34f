"""Why a plain function returns the wrong number: from more calls, and only what all of them show."""

import math

import pytest

from labutils.check.evaluate import evaluate
from labutils.exercises._numbers import sentence_for
from labutils.spec.exercise import Case, PlainExercise, Points


def traffic_of(explain=None):
    return PlainExercise(
        id="99_test/traffic",
        title="Bytes of a launch",
        entry="traffic",
        points=Points(correct=1),
        cases=tuple(
            Case(f"n = {n}", {"n": n, "block": b, "extra": e}) for n, b, e in ((8, 4, 3), (9, 4, 5), (40, 16, 7))
        ),
        reference=lambda n, block, extra: 4 * math.ceil(n / block) * block + extra,
        draw=lambda rng: {"n": rng.randint(1, 90), "block": rng.choice((4, 8, 16)), "extra": rng.randint(2, 50)},
        explain=explain,
    )


TRAFFIC = traffic_of()


def right(n, block, extra):
    return TRAFFIC.reference(n=n, block=block, extra=extra)


def explained(fn, exercise=TRAFFIC):
    return evaluate(exercise, fn, explain=True).headline


@pytest.mark.parametrize(
    "fn, cause",
    [
        (lambda n, block, extra: right(n, block, extra) / 8, "every result is 0.125 (1/8) times the right one"),
        (lambda n, block, extra: right(n, block, extra) + 2, "every result is 2 too large"),
        (lambda n, block, extra: right(n, block, extra) - extra, "every result is too small by extra"),
        (lambda n, block, extra: right(n, block, extra) / block, "every result is 1/block times the right one"),
        (lambda n, block, extra: right(n, block, 1), "extra has no effect, as if it were always 1"),
        (lambda n, block, extra: right(block, n, extra), "n and block are exchanged"),
        (lambda n, block, extra: right(extra, block, extra), "it uses extra where n belongs"),
        (lambda n, block, extra: right(n - 1, block, extra), "it uses n − 1 where n belongs"),
        (lambda n, block, extra: -right(n, block, extra), "every result is -1 times the right one"),
        (lambda n, block, extra: 1 / right(n, block, extra), "it is 1 / the right result"),
    ],
)
def test_causes_that_fit_all_calls_are_named(fn, cause):
    assert cause in explained(fn).symptom


def test_a_cause_must_leave_right_the_calls_that_are():
    """1 too large where a block is partial: no constant is added to every result."""
    symptom = explained(lambda n, block, extra: right(n, block, extra) + (n % block > 0)).symptom
    assert "every result" not in symptom and "1 too large, as if it were rounded up there" in symptom


def test_where_no_cause_fits_the_arguments_that_move_it_the_wrong_way_are_named():
    found = explained(lambda n, block, extra: 4 * n + 3 * extra * extra / block)
    assert "doubling extra here" in found.symptom and "Look at the terms with" in found.advice


def test_terms_that_grow_as_they_should_are_not_suspected():
    found = explained(lambda n, block, extra: right(n, block, extra) + 7 + n % 2)
    assert "doubling n here adds the right amount" in found.symptom
    assert found.advice.startswith("The terms with n") and found.advice.endswith("a term without is missing or wrong.")


@pytest.mark.parametrize("calls, kept", [(range(91), True), ((8, 9, 40), False)])
def test_advice_of_the_exercise_counts_if_all_refused_calls_give_it_drawn_ones_too(calls, kept):
    hints = traffic_of(lambda sizes, yours, expected: "Round up." if sizes["n"] in calls else None)
    found = explained(lambda n, block, extra: right(n, block, extra) - extra, hints)
    assert (found.advice == "Round up.") is kept and ("too small by extra" in found.symptom) is not kept


SPEEDUP = PlainExercise(
    id="99_test/speedup",
    title="A ratio",
    entry="speedup",
    points=Points(correct=1),
    cases=tuple(Case(f"n = {n}", {"n": n, "rows": rows}) for n, rows in ((2, 1), (8, 6), (4096, 64))),
    reference=lambda n, rows: (7 * n * rows + n) / (3 * n * rows + n),
)


def test_one_number_for_all_arguments_is_not_said_to_be_rounded():
    found = explained(lambda n, rows: 2 * n / n, SPEEDUP)
    assert "the result is 2 in every call" in found.symptom and "rounded" not in found.symptom


def without_its_term(n, block, extra):
    half, rest = -(-n // block) * 2 * block, -(-n // block) * 2 * block + extra  # noqa: F841 (the mistake)
    return half


def whole_then_times(n, block, extra):
    blocks = -(-n // block)
    return 4 * blocks * extra + extra


def too_early(n, block, extra):
    part = -(-n // block) * 4 * block
    return part // 3 * 3 + extra


@pytest.mark.parametrize(
    "fn, place",
    [
        (without_its_term, "one change of your line {}, `return half`, makes every result right"),
        (whole_then_times, "one change of your line {}, `return 4 * blocks * extra + extra`, makes every result right"),
        (too_early, "one change of your line {}, `return part // 3 * 3 + extra`, makes every result right"),
    ],
)
def test_the_place_of_one_wrong_part_is_named(fn, place):
    line = fn.__code__.co_firstlineno + 2
    assert place.format(line) in explained(fn).symptom


def test_what_one_case_says_is_no_advice_where_the_others_contradict_it():
    hints = traffic_of(lambda sizes, yours, expected: "A quarter." if sizes["n"] == 9 else None)
    assert explained(lambda n, block, extra: hash((n, block, extra)) % 97, hints).advice != "A quarter."


def hinted(sizes, yours, expected):
    """A coincidence of the first case, beside the cause of all."""
    return sentence_for(yours, [(35 - sizes["n"] // 8, "Coincidence."), (expected - sizes["extra"], "Extra.")])


def test_of_sentences_that_fit_the_one_that_fits_all_calls_is_taken():
    assert hinted({"n": 8, "extra": 1}, 34, 35).fitting == ("Coincidence.", "Extra.")
    assert explained(lambda n, block, extra: right(n, block, extra) - extra, traffic_of(hinted)).advice == "Extra."


def test_functions_that_return_no_number_keep_their_message():
    assert explained(lambda n, block, extra: None).symptom.endswith("returned None")
