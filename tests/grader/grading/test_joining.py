"""Who a submission belongs to when a run has students already."""

import pytest

from grader.grading.joining import join
from grader.intake.collect import Submission
from grader.marks.results import Origin

KNOWN = {
    "Ana Diaz": Origin("moodle", "11", "Ana Diaz", "ana@example.org"),
    "Ana Diaz 12": Origin("moodle", "12", "Ana Diaz"),
    "O_Brien": Origin(name="O'Brien"),
    "ben": Origin("nbgrader", "ben", "ben"),
}


@pytest.mark.parametrize(
    ("student", "origin", "becomes"),
    [
        ("Ana Diaz", Origin("moodle", "12", "Ana Diaz"), "Ana Diaz 12"),  # the number decides
        ("Ana D", Origin("moodle", "11", "Ana D"), "Ana Diaz"),  # also after a change of name
        ("Ana Diaz", Origin("moodle", "13", "Ana Diaz"), "Ana Diaz 13"),  # someone else of that name
        ("O_Brien", Origin(name="O'Brien"), "O_Brien"),
        ("O_Brien", Origin(name="O/Brien"), "O_Brien_"),  # whose name only looks the same without its slash
        ("ben", Origin(name="ben"), "ben"),
        ("zoe", Origin(name="zoe"), "zoe"),
    ],
)
def test_number_then_name(student, origin, becomes):
    submission = Submission(student, origin=origin)
    join([submission], KNOWN)
    assert submission.student == becomes


def test_a_notebook_that_came_another_way_keeps_the_platforms_number():
    late = Submission("Ana Diaz", origin=Origin(name="Ana Diaz", file="a.ipynb", handed_in="2026-11-20T12:00:00"))
    join([late], KNOWN)
    assert late.origin == Origin("moodle", "11", "Ana Diaz", "ana@example.org", "a.ipynb", "2026-11-20T12:00:00")
    assert "2 students are called 'Ana Diaz'" in late.repairs[0]
