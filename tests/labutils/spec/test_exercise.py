"""Points: what a verdict earns, and what stays open where a machine cannot judge it."""

import pytest

from labutils.check import diagnose
from labutils.spec.exercise import Bound, Points
from labutils.spec.verdict import CaseResult, Verdict

POINTS = Points(correct=2, bounds=(Bound("sectors", "sectors", None, 10, None, 1.0),), speed=1)
COUNTS = {"case": "x", "sectors": 5, "global_load_sectors": 1, "global_store_sectors": 1, "compulsory_bytes": 64}


def verdict(kind=None, **more):
    found = diagnose.diagnosis(kind, "seen") if kind else None
    return Verdict("u/e", "x", [CaseResult("one", found)], found, points=POINTS.total, **more)


@pytest.mark.parametrize(
    ("found", "earned", "still_open"),
    [
        (verdict(counts=COUNTS), 4.0, 0.0),
        (verdict(), 2.0, 2.0),
        (verdict(timing={"fairest": 1.0}), 3.0, 1.0),
        (verdict("needs-gpu"), 0.0, 4.0),
        (verdict("needs-gpu", counts=COUNTS), 0.0, 4.0),
        (verdict("wrong-values", counts=COUNTS), 0.0, 0.0),
        (verdict("does-not-compile"), 0.0, 0.0),
    ],
)
def test_points_are_earned_lost_or_open(found, earned, still_open):
    assert (POINTS.award(found), POINTS.open(found)) == (earned, still_open)


def test_open_points_are_part_of_what_a_verdict_says():
    found = verdict("needs-gpu", open=4.0)
    assert Verdict.from_json(found.to_json()) == found
    assert "0 of 4 points, 4 still open: they need a GPU" in found.text()
    old = {k: v for k, v in found.to_json().items() if k != "open"}
    assert Verdict.from_json(old).open == 0, "records of earlier versions can be read"


def test_any_mistake_explains_more_than_a_missing_gpu():
    needs, wrong = (diagnose.diagnosis(k, "seen") for k in ("needs-gpu", "wrong-values"))
    assert diagnose.headline([needs, wrong, needs]) == wrong
    guess = diagnose.replace(diagnose.diagnosis("wrong-formula", "seen"), guess=True)
    assert diagnose.headline([needs, needs, guess]) == guess


def test_bounds_in_order_end_at_the_first_that_is_not_met():
    steps = tuple(Bound(name, name, at_most=1) for name in ("first", "second", "third"))
    points = Points(correct=1, bounds=steps, in_order=True)
    seen = verdict(counts={"case": "c", "first": 1, "second": 5, "third": 1})
    assert points.award(seen) == 2
    notes = points.notes(seen)
    assert any("second" in line for line in notes) and not any("third" in line for line in notes)
    assert "1 more count," in notes[-1]
    assert Points(correct=1, bounds=steps).award(seen) == 3
    done = verdict(counts={"case": "c", "first": 1, "second": 1, "third": 1})
    assert points.award(done) == 4 and "more count" not in points.notes(done)[-1]
    assert points.award(verdict(counts={})) == 1
