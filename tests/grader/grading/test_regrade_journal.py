"""A regrade goes through an engine and the journal: killed anywhere, the same command goes on, and nothing is lost."""

import json

import pytest

from grader.gradebook.gradebook import Course
from grader.gradebook.journal import JournalError
from grader.grading import status, verify
from grader.grading.regrade import NoRegrade, regrade
from tests.grader.engines import pretend
from tests.grader.grading.pretended import Here, PowerCut, marks_of
from tests.grader.small import EXERCISE, UNIT

AFTER = {"ana": 0.5, "ben": 0.5, "chi": 0.5, "dee": 0, "eve": 0}


class Mended(Here):
    """Judges by a test that was mended: a right answer is worth half."""

    def run(self, jobs):
        for job in jobs:
            assert job["run"] is False, "no notebook runs again"
            self.asked.append(job["key"])
            verdicts = pretend.do(job)["verdicts"]
            verdicts[EXERCISE]["marks"] /= 2
            verdict = self.fails(len(self.asked), {"verdicts": verdicts, "record": {"seed": job["seed"]}})
            yield job["key"], verdict


@pytest.fixture
def again(class_, unit):
    class_(Here())

    def run(engine, only=("add_bytes",)):
        return regrade(class_.out, only, solutions=unit.parent, engine=engine)

    run.out = class_.out
    return run


def test_everyone_is_judged_again_and_everything_follows(again):
    engine = Mended()
    results, changes = again(engine)
    assert engine.asked == ["ana", "ben", "chi", "dee"] and marks_of(results) == AFTER
    assert changes == {name: (1, 0.5) for name in ("ana", "ben", "chi")}
    assert "the points of 3 students changed" in results.notes[-1]
    assert verify.problems(again.out) == [] and Course(again.out / "course", UNIT).scores() == AFTER
    record = json.loads((again.out / "records" / "ana.json").read_text())
    assert record["verdicts"][EXERCISE]["marks"] == 0.5


@pytest.mark.parametrize("where", ["judging", "gradebook"])
def test_a_regrade_that_ended_early_goes_on(again, class_, monkeypatch, where):
    def stop(done, result):
        if done == 3:
            raise PowerCut
        return result

    def record(self, student, executed, results, stock=Course.record):
        if student == "ben":
            raise PowerCut  # it is in the journal by now
        stock(self, student, executed, results)

    first = Mended(stop if where == "judging" else lambda done, result: result)
    with monkeypatch.context() as patch, pytest.raises(PowerCut):
        if where == "gradebook":
            patch.setattr(Course, "record", record)
        again(first)
    assert "The run of" in verify.problems(again.out)[0]
    assert any("judging add_bytes again is not finished" in line for line in status.lines(again.out))
    with pytest.raises(JournalError, match="the same `regrade` command goes on"):
        class_(Here())
    second = Mended()
    results, changes = again(second)
    assert second.asked == ["chi", "dee"] and len(changes) == 3
    assert marks_of(results) == AFTER and verify.problems(again.out) == []
    assert Course(again.out / "course", UNIT).scores() == AFTER


def test_what_a_person_did_stays(again):
    course = Course(again.out / "course", UNIT)
    with course.api.gradebook as book:
        grade = book.find_grade("explain", UNIT, UNIT, "dee")
        grade.manual_score, grade.needs_manual_grade = 1.5, False
        book.db.commit()
    again(Mended())
    with course.api.gradebook as book:
        grade = book.find_grade("explain", UNIT, UNIT, "dee")
        assert (grade.manual_score, grade.needs_manual_grade) == (1.5, False)


def test_who_cannot_be_judged_again_keeps_the_points(again):
    results, changes = again(Mended(lambda done, result: {"lost": "its worker died"} if done == 1 else result))
    assert marks_of(results)["ana"] == 1 and len(changes) == 2
    assert "ana was not judged again, and the points are as before: its worker died." in results.notes
    assert verify.problems(again.out) == []


def test_what_cannot_be_judged_again_says_why(again):
    with pytest.raises(NoRegrade, match="has no exercise 'none'; it has add_bytes"):
        again(Mended(), ["none"])
    assert verify.problems(again.out) == []


def test_status_says_what_is_there(again, class_):
    found = "\n".join(status.lines(again.out))
    for words in ("Count bytes", "finished; `grade` adds", "5 students, on average 0.6 of 1", "1 without a graded"):
        assert words in found
    assert "4 students have answers that a person must grade." in found and "as they were" in found
