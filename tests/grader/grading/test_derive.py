"""What a class shows is made from its journal and from what people gave in the formgrader."""

from grader.gradebook import by_hand
from grader.gradebook.gradebook import Course
from grader.grading.marking import device_of
from grader.marks.results import Graded, Outcome
from grader.reports import report
from labutils.spec.verdict import CaseResult, Verdict
from tests.grader.grading.pretended import Here
from tests.grader.reports.test_report import Page
from tests.grader.small import UNIT


def test_written_points_and_comments_are_on_the_learners_page(class_):
    results = class_(Here())
    course = Course(class_.out / "course", UNIT)
    with course.api.gradebook as book:
        grade = book.find_grade("explain", UNIT, UNIT, "ana")
        grade.manual_score, grade.needs_manual_grade = 1.5, False
        book.find_comment("explain", UNIT, UNIT, "ana").manual_comment = "Two loads & one store."
        changed = book.find_grade("check-add_bytes", UNIT, UNIT, "dee")
        changed.manual_score, changed.needs_manual_grade = 0.25, False
        book.db.commit()
    report.write(results, class_.out)
    pages = {name: Page((class_.out / "feedback" / f"{name}.html").read_text()) for name in ("ana", "ben", "dee")}
    text = {name: " ".join(page.text.split()) for name, page in pages.items()}
    assert "2.5 of 3 points" in text["ana"] and "Two loads & one store." in text["ana"]
    assert "1 of 1 points" in text["ben"] and "not graded yet" in text["ben"]
    assert "from 0 to 0.25" in text["dee"]
    read = by_hand.read(course.folder, UNIT)
    assert (read["ana"].waiting, read["ben"].waiting, read["dee"].changed) == (0, 1, {"check-add_bytes": 0.25})


def test_of_two_backends_as_frequent_the_first_is_named():
    """The order of a set of texts changes from process to process."""
    names = [f"backend {n}" for n in range(20)]
    verdicts = [Verdict("00_start/scale", name, results=[CaseResult("a case")]) for name in names]
    outcomes = [Outcome("scale", "c", 1.0, 1.0, "", "", verdict) for verdict in verdicts]
    assert device_of([Graded("ana", outcomes)]) == names[0]
