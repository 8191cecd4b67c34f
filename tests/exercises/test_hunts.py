"""Hunts take their cases from other exercises; an answer is a line and a cause, and each half is reported."""

from dataclasses import replace

import pytest

from labutils import exercises
from labutils.exercises import hunts
from labutils.spec.verdict import CaseResult, Verdict


@pytest.mark.parametrize("unit", hunts.UNITS)
def test_a_fix_is_checked_like_the_exercise_it_comes_from(unit):
    for name, hunt in hunts.UNITS[unit].hunts.items():
        mine, other = exercises.get(f"{unit}/{name}"), exercises.get(hunt.kernel)
        assert (mine.cases, mine.entry, mine.reference) == (other.cases, other.entry, other.reference)
        kept = [replace(b, points=1.0) for b in mine.points.bounds]
        assert kept == [replace(b, points=1.0) for b in other.points.bounds] and mine.points.speed == 0
        assert mine.points.total == 1 or hunt.missed
        assert sum(b.text in hunt.missed for b in mine.points.bounds) == len(hunt.missed)
        assert hunts.is_hunt(mine.id) and not hunts.is_hunt(other.id)
    assert not hunts.is_hunt(f"{unit}/bug")


def counted(points, met):
    """A verdict on a kernel that is right and meets the bounds of these texts."""
    counts = {"case": "largest", "load_bytes": 1, "store_bytes": 1}
    for b in points.bounds:
        good, bad = (0, 1e9) if b.at_most is not None else (1e9, 0)
        counts |= {b.count: good if b.text in met else bad, **({b.per: 1} if b.per else {})}
    return Verdict("x", "here", [CaseResult("largest")], counts=counts)


@pytest.mark.parametrize(
    "hunt, met, marks",
    [
        ("08_hunt/gelu", (), 0),  # as it is released
        ("08_hunt/gelu", ("bytes per load request",), 1.25),
        ("10_hunt/transpose_padded", ("sectors per load request", "sectors per store request"), 0),
        ("11_hunt/histogram", (), 0.75),  # every element is a global atomic
        ("11_hunt/histogram", ("bytes of global stores and atomics per byte of x",), 1),
    ],
)
def test_a_fix_earns_what_it_fixes_and_keeps(hunt, met, marks):
    points = exercises.get(hunt).points
    assert {*met} <= {b.text for b in points.bounds} or hunt.endswith("padded")
    seen = counted(points, met)
    assert points.award(seen) == marks
    assert any("Nothing is earned yet" in line for line in points.notes(seen)) == (marks == 0)
    seen.counts = {}
    assert points.award(seen) + points.open(seen) == points.total, "counts that are not known are open"


def test_there_are_forty_and_their_entries_differ_within_a_notebook():
    assert sum(len(of.hunts) for of in hunts.UNITS.values()) >= 40
    for unit, of in hunts.UNITS.items():
        assert len({exercises.get(f"{unit}/{name}").entry for name in of.hunts}) == len(of.hunts)


@pytest.mark.parametrize(
    "yours, said",
    [
        (None, "no line and cause"),
        ((17, "wrong stride"), "no line and cause"),
        ({"line": 17}, "no line and cause"),
        ({"line": "17", "cause": "wrong stride"}, "names no line"),
        ({"line": True, "cause": "wrong stride"}, "names no line"),
        ({"line": 17, "cause": "a slip"}, "none of the causes"),
        ({"line": 17, "cause": ["wrong stride"]}, "none of the causes"),
        ({"line": 17, "cause": "overflow"}, "the line is right, the cause is not"),
        ({"line": 18, "cause": "wrong stride"}, "the cause is right, the line is not"),
        ({"line": 18, "cause": "overflow"}, "neither line 18 nor the cause is right"),
    ],
)
def test_each_half_of_an_answer_is_reported(yours, said):
    message, advice = hunts.examine("08_hunt", "bias_scale", yours)
    assert said in message and advice.endswith((".", "?"))


def test_the_right_answer_is_right():
    assert hunts.examine("08_hunt", "bias_scale", {"line": 17, "cause": "wrong stride"}) is None
