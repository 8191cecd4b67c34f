"""Exercises in plain Python: one clear sentence for each wrong function, and objects as well as numbers."""

import os

import pytest
import torch

import labutils as lab
from labutils.check.check import evaluate
from labutils.spec.exercise import PlainExercise, Points
from tests.labutils.check.test_check import BYTES, SORTED, registered, report, silent  # noqa: F401  (fixtures too)


@pytest.mark.parametrize(
    "fn, sentence",
    [
        (lambda n, item: None, "add_bytes(8, 4) returned None"),
        (lambda n, item: "96", "returned a str"),
        (lambda n, item: [96], "returned a list"),
        (lambda n, item: float("nan"), "is nan, expected 96"),
        (lambda n, item: 10**400, "returned a int"),
        (lambda n, item: 2 * n * item, "You left out the store."),
        (lambda n, item: torch.ones(3), "returned a Tensor"),
        (lambda n: 0, "it is called with (n, item), but yours takes (n)"),
        (lambda n, item: os._exit(1), "it ended itself with exit code 1"),
        (lambda n, item: n / 0, "ZeroDivisionError"),
    ],
)
def test_wrong_plain_function(capfd, fn, sentence):
    assert sentence in report(capfd, "99_test/add_bytes", fn)


def test_right_plain_function(capfd):
    assert lab.check("99_test/add_bytes", lambda n, item: 3.0 * n * item) == 1.0
    assert lab.check("99_test/add_bytes", lambda n, item: torch.tensor(3 * n * item)) == 1.0


def test_endless_plain_function():
    verdict = evaluate(BYTES, never_ends_plain, time_limit=0.5)
    assert verdict.headline.kind == "timeout" and "line" in verdict.headline.symptom


def never_ends_plain(n, item):
    while True:
        n += 1


def test_a_plain_exercise_may_take_and_give_objects():
    verdict = evaluate(SORTED, lambda values: sorted(values))
    assert verdict.passed and verdict.marks == 1, verdict.text()
    verdict = evaluate(SORTED, lambda values: values)
    assert verdict.headline.kind == "wrong-formula" and "not sorted: [3, 2, 1]" in verdict.headline.symptom
    assert verdict.headline.advice == "Use sorted."
    assert evaluate(SORTED, lambda numbers, more: 0).headline.kind == "signature"


def test_a_plain_exercise_needs_one_judge():
    with pytest.raises(ValueError, match="either a reference or examine"):
        PlainExercise(id="99_test/none", title="No judge", entry="none", points=Points(1), cases=SORTED.cases)
