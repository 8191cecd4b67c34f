"""Late rules: read from a table, applied to times of every kind, entered into nbgrader's gradebook."""

import importlib
from datetime import datetime, timedelta
from types import SimpleNamespace

import pytest

from grader.marks.late import LateError, Rules, applied, enter
from grader.marks.results import Graded, Origin, Outcome

TABLE = """
due = 2026-11-20T23:59:00
time_zone = "Europe/Berlin"
grace_minutes = 15
per_day = 10
most = 50
[extensions]
ana = 2026-11-22T23:59:00
ben = "+36 h"
[handed_in]
cem = 2026-11-20T20:00:00
"""


@pytest.fixture
def rules(tmp_path):
    return read(tmp_path, TABLE)


def read(tmp_path, text):
    (tmp_path / "late.toml").write_text(text)
    return Rules.read(tmp_path / "late.toml")


def at(when, **more):
    return Origin(handed_in=when, clock="the file's time", **more)


@pytest.mark.parametrize(
    ("student", "when", "percent"),
    [
        ("dora", "2026-11-20T22:58:59+00:00", None),  # Berlin is an hour ahead
        ("dora", "2026-11-20T23:13:00+00:00", None),  # within the grace
        ("dora", "2026-11-20T23:15:00+00:00", 10),
        ("dora", "2026-11-21T00:30:00", 10),  # a zip's time has no zone: the table's
        ("dora", "2026-11-21T23:30:00+00:00", 20),
        ("dora", "2026-12-24T23:30:00+00:00", 50),
        ("ana", "2026-11-22T20:00:00+00:00", None),
        ("ana", "2026-11-23T20:00:00+00:00", 10),
        ("ben", "2026-11-22T10:00:00+00:00", None),
        ("ben", "2026-11-22T12:00:00+00:00", 10),
        ("cem", "2026-11-30T12:00:00+00:00", None),
        ("dora", "", None),
    ],
)
def test_what_a_time_costs(rules, student, when, percent):
    late = rules.of(student, at(when))
    assert (late and late.percent) == percent
    if late:
        assert "the file's time" in late.sentence and f"{percent} % of the points" in late.sentence


def test_canvas_knows_who_is_late(rules):
    early, later = "2026-11-20T20:00:00+00:00", "2026-11-22T20:00:00+00:00"
    canvas = {"system": "canvas"}
    assert rules.of("dora", at(later, marked_late=False, **canvas)) is None
    marked = rules.of("dora", at(early, marked_late=True, **canvas))
    assert marked.percent == 10 and "Canvas's flag; the time is unknown" in marked.sentence
    assert rules.of("dora", at(later, marked_late=True, **canvas)).percent == 20
    assert rules.of("cem", at(later, marked_late=True, **canvas)) is None, "the table's word is the last"
    assert rules.of("ana", at(later, marked_late=True, **canvas)) is None, "an extension that Canvas does not know"


def test_a_student_may_be_named_as_the_platform_does(tmp_path):
    """In the gradebook a quote or a slash may have become an underscore."""
    rules = read(
        tmp_path, 'due = 2026-11-20T12:00:00\nper_day = 10\n[extensions]\n"Siobhan O\'Brien/2" = "2 days"\n17 = "9 d"'
    )
    when = "2026-11-22T11:00:00+00:00"
    assert rules.of("Siobhan O_Brien_2", at(when, name="Siobhan O'Brien/2")) is None
    assert rules.of("Siobhan O_Brien_2", at(when, name="someone")).percent == 20
    assert rules.of("ana", at(when, system="moodle", id="17")) is None
    found = Graded("Siobhan O_Brien_2", origin=Origin(name="Siobhan O'Brien/2"))
    assert rules.strangers([found]) == ["17"]


def test_steps_in_place_of_days(tmp_path):
    rules = read(tmp_path, 'due = "2026-11-20 12:00"\nsteps = [[1, 5], [24, 25]]\nmost = 100')
    shares = [rules.percent(timedelta(hours=h)) for h in (0.5, 1, 2, 24, 25)]
    assert shares == [5, 5, 25, 25, 100]


def test_a_night_in_which_the_clock_is_put_back(tmp_path):
    rules = read(tmp_path, 'due = 2026-10-25T01:30:00\ntime_zone = "Europe/Berlin"\nsteps = [[2, 1], [24, 2]]')
    assert rules.of("dora", at("2026-10-25T03:15:00")).percent == 2, "2 h 45 min, not 1 h 45 min"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("per_day = 10", "has no due time"),
        ("due = 1", "not a time"),
        ("due = 2026-11-20", "not a time"),
        ("due = 2026-11-20T12:00:00\nper_day = 200", "not a percentage"),
        ("due = 2026-11-20T12:00:00\nper_dya = 2", "per_dya"),
        ('due = 2026-11-20T12:00:00\ntime_zone = "Berlin"', "Berlin"),
        ('due = 2026-11-20T12:00:00\n[extensions]\nana = "soon"', "soon"),
        ("due = ", "late.toml"),
    ],
)
def test_a_table_that_cannot_be_understood_says_where(tmp_path, text, why):
    with pytest.raises(LateError, match=why):
        read(tmp_path, text)


def test_the_penalty_is_a_share_of_what_was_earned(rules):
    students = [
        Graded("dora", [Outcome("x", "c", 3.0, 3.0, "", "")], origin=at("2026-11-21T23:30:00+00:00")),
        Graded("eva", [Outcome("x", "c", 0.0, 3.0, "", "")], problem="Not graded.", origin=at("2026-12-21T00:00:00")),
    ]
    students = list(applied(rules, students))
    dora, eva = students
    assert (dora.marks, dora.penalty, dora.score) == (3.0, 0.6, 2.4) and eva.late is None
    assert dora.what_happened().startswith("Submitted on 2026-11-22 00:30 CET, 1 d")


def test_the_grade_book_knows_due_times_and_penalties(tmp_path, rules):
    from grader.course import nbgrader_config  # noqa: F401 (before nbgrader)

    Gradebook = importlib.import_module("nbgrader.api").Gradebook

    class Course:
        unit = "u"

        @property
        def api(self):
            return SimpleNamespace(gradebook=Gradebook(f"sqlite:///{tmp_path}/gradebook.db"))

    with Course().api.gradebook as book:
        book.add_assignment("u")
        book.add_notebook("u", "u")
        book.add_grade_cell("check", "u", "u", max_score=4, cell_type="code")
        for name in ("ana", "dora", "stranger"):
            book.add_student(name)
            book.add_submission("u", name)
            book.find_grade("check", "u", "u", name).auto_score = 4
        book.db.commit()
    students = [Graded("dora", origin=at("2026-11-21T23:30:00+00:00")), Graded("ana", origin=at(""))]
    students = list(applied(rules, students))
    enter(Course(), students, rules)
    with Course().api.gradebook as book:
        dora, ana = (book.find_submission("u", name) for name in ("dora", "ana"))
        assert dora.late_submission_penalty == 0.8 and dora.timestamp == datetime(2026, 11, 21, 23, 30)
        assert dora.total_seconds_late == pytest.approx(24 * 3600 + 31 * 60)
        assert ana.late_submission_penalty == 0 and ana.extension == timedelta(days=2)
        assert dora.duedate == datetime(2026, 11, 20, 22, 59)
        book.find_grade("check", "u", "u", "dora").manual_score = 2  # by a person, later
        book.db.commit()
    enter(Course(), students)
    with Course().api.gradebook as book:
        assert book.find_submission("u", "dora").late_submission_penalty == 0.4
