"""Hunts take their cases from other exercises; an answer is a line and a cause, and each half is reported."""

from dataclasses import replace

import pytest

from labutils import exercises
from labutils.exercises import hunts


@pytest.mark.parametrize("unit", hunts.UNITS)
def test_a_fix_is_checked_like_the_exercise_it_comes_from(unit):
    for name, hunt in hunts.UNITS[unit].hunts.items():
        mine, other = exercises.get(f"{unit}/{name}"), exercises.get(hunt.kernel)
        assert (mine.cases, mine.entry, mine.reference) == (other.cases, other.entry, other.reference)
        kept = [replace(b, points=1.0) for b in mine.points.bounds]
        assert kept == [replace(b, points=1.0) for b in other.points.bounds if hunt.missed] and mine.points.speed == 0
        assert sum(b.text in hunt.missed for b in mine.points.bounds) == len(hunt.missed)
        assert hunts.is_hunt(mine.id) and not hunts.is_hunt(other.id)
    assert not hunts.is_hunt(f"{unit}/bug")


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
