"""The report opens with what to do next; repairs of one kind are one line; large classes have pages by hundreds."""

import pytest

from grader.gradebook.by_hand import ByHand, WrittenAnswer
from grader.intake.roster import NOTHING
from grader.marks.results import Check, ClassResults, Graded, Lateness, Outcome
from grader.reports import feedback, next_steps, report
from tests.grader.reports.test_report import Page

CHECKS = [Check(name, name.title(), f"check-{name}", 2.0) for name in ("add", "scale", "sum", "norm")]


def student(name, *kinds, **more):
    outcomes = [
        Outcome(c.name, c.cell, 0.0 if kind else 2.0, 2.0, kind, f"{name} has {kind}." if kind else "2 of 2 points.")
        for c, kind in zip(CHECKS, kinds, strict=True)
    ]
    return Graded(name, outcomes, **more)


@pytest.fixture
def results():
    students = [
        student("ana", "", "", "race", "race"),
        student("ben", "", "race", "race", "unfilled"),
        student("cem", "", "tail-unmasked", "timeout", "race"),
        student("dora", "unfilled", "unfilled", "unfilled", "unfilled"),
        student("eli", *["not graded"] * 4, problem=NOTHING),
        student("fay", *["not graded"] * 4, problem="Not graded, 0 points: the file is empty."),
    ]
    return ClassResults("u", "Unit", CHECKS, students, "x", 1, "today", manual=2.0)


def test_the_exercises_that_most_of_those_who_tried_failed(results):
    found = next_steps.most_failed(results)
    assert [(f.check.name, f.failed, f.tried) for f in found] == [("sum", 3, 3), ("norm", 2, 2), ("scale", 2, 3)]
    assert (found[0].kind, found[0].of_kind) == ("race", 2)
    assert found[0].examples == [("ana", "ana has race."), ("ben", "ben has race.")]
    assert [s.student for s in next_steps.need_help(results)] == ["dora", "ben", "cem"]


def test_the_report_says_what_to_do_with_links(results):
    hands = {"ana": ByHand([WrittenAnswer("why", "Why?", 0, 2, waiting=True)])}
    page = Page(report.html(results, links=True, hands=hands))
    text = " ".join(page.text.split())
    assert page.open == [] and text.index("What to do next") < text.index("Exercises")
    assert "Go through “Sum” again: 3 of 3 who tried did not solve it, 2 of them with race" in text
    assert "Talk to 3 students with less than half of the points: dora (0), ben (2), cem (2)." in text
    assert "1 submitted nothing: eli." in text and "1 could not be graded: fay." in text and "1 waits in" in text
    assert {"feedback/ana.html", "feedback/dora.html", "feedback/eli.html", "repairs.html"} <= set(page.loads)
    assert "5 submissions of 6 students" in text
    assert Page(report.html(results)).loads == [], "without the pages beside it nothing is linked"


def test_a_class_that_solved_everything_is_told_so(results):
    results.students = [student("ana", "", "", "", "")]
    text = Page(report.html(results)).text
    assert "Nobody who tried an exercise failed it." in text and "Talk to" not in text


def test_repairs_of_one_kind_are_one_line():
    lost = [f"The grading information of the answer cell 'k{n}' was lost and is restored." for n in range(9)]
    lost += [f"The grading information of the check 'c{n}' was lost and is restored." for n in range(9)]
    other = ["The file was called 'x.ipynb'.", "The check 'a' had been edited; it runs as released."]
    assert next_steps.by_kind([*lost, *other]) == [
        "18 ×: The grading information of a cell was lost and is restored.", *other,
    ]  # fmt: skip


def test_a_students_page_has_written_points_and_comments(results):
    ana = results.students[0]
    ana.late = Lateness(50, "Late.")
    answers = [
        WrittenAnswer("why", "Why three?", 1.5, 2.0, "Two loads.\nOne store."),
        WrittenAnswer("plot", "Plot", 0, 3, "", True),
    ]
    hand = ByHand(answers, {"check-sum": 1.0}, [("add_kernel", "<b>Well</b> done")])
    text = " ".join(Page(feedback.page(results, ana, hand)).text.split())
    assert "3.25 of 10 points" in text and "That is 3.25 of the 6.5 points" in text, "half of 4 + 1 + 1.5"
    assert "Why three? 1.5 / 2" in text and "Two loads. One store." in text and "Plot not graded yet" in text
    assert "1 of your 2 written answers is not graded yet." in text
    assert "changed the points of this exercise from 0 to 1" in text and "add_kernel: <b>Well</b> done" in text
    plain = " ".join(Page(feedback.page(results, ana)).text.split())
    assert "2 of 8 points" in plain and "Written answers are worth 2 more" in plain


def test_a_class_of_more_than_a_hundred_has_pages_by_hundreds(results, tmp_path):
    results.students = [student(f"s{n:03}", "", "", "", "race", repairs=["It was renamed."]) for n in range(201)]
    report.write(results, tmp_path)
    assert sorted(p.name for p in tmp_path.glob("*-*.html")) == [
        "repairs-2.html", "repairs-3.html", "students-1.html", "students-2.html", "students-3.html",
    ]  # fmt: skip
    whole = Page((tmp_path / "report.html").read_text())
    assert {"students-1.html", "students-3.html"} <= set(whole.loads) and "s100 to s199" in whole.text
    part = Page((tmp_path / "students-2.html").read_text())
    assert part.open == [] and part.tags.count("details") == 100 and "students 101 to 200 of 201" in part.text
    assert "feedback/s100.html" in part.loads and "report.html" in part.loads
    results.students = results.students[:100]
    report.write_pages(results, tmp_path)
    assert (
        not list(tmp_path.glob("*-*.html"))
        and Page((tmp_path / "report.html").read_text()).tags.count("details") >= 100
    )
