"""Whatever ends a run, --resume grades every submission exactly once, and the gradebook is sound."""

import shutil

import pytest

from grader import engines
from grader.course.sources import source_notebook
from grader.gradebook.gradebook import Course
from grader.gradebook.journal import DiskFull, Journal, JournalError
from grader.grading import verify
from grader.grading.grade import exit_status, grade
from grader.grading.options import GradeOptions
from tests.grader.engines import pretend
from tests.grader.small import UNIT, right, write_unit


class PowerCut(BaseException):
    """Nothing may catch it, as nothing would be left to."""


class Here:
    """An engine that pretends, in this process; `fails` may end it, or give another result, at any job."""

    workers = 1

    def __init__(self, fails=lambda done, result: result):
        self.fails, self.asked = fails, []

    def run(self, jobs):
        for job in jobs:
            self.asked.append(job["key"])
            yield job["key"], self.fails(len(self.asked), pretend.do(job))

    def running(self):
        return {}

    def close(self):
        pass


@pytest.fixture(scope="module")
def unit(tmp_path_factory):
    return write_unit(tmp_path_factory.mktemp("solutions"))


@pytest.fixture(scope="module")
def gradebook(unit, tmp_path_factory):
    """A gradebook that knows the unit: nbgrader takes seconds to make a new one."""
    course = Course(tmp_path_factory.mktemp("course"), UNIT)
    course.release(source_notebook(unit))
    return course.folder / "gradebook.db"


@pytest.fixture(scope="module")
def good(unit):
    return right(unit)


@pytest.fixture
def class_(unit, good, gradebook, tmp_path, monkeypatch):
    """Grades a class of five; called with an engine and options."""
    folder, out = tmp_path / "submissions", tmp_path / "out"
    folder.mkdir()
    (out / "course").mkdir(parents=True)
    shutil.copy(gradebook, out / "course")
    for name in ("ana", "ben", "chi"):
        (folder / f"{name}.ipynb").write_bytes(good)
    (folder / "dee.ipynb").write_bytes(good.replace(b"3 * n", b"2 * n"))
    (folder / "eve.ipynb").write_bytes(good[:300])

    def run(engine, **options):
        monkeypatch.setattr(engines, "open_engine", lambda *_, **__: engine)
        monkeypatch.setattr(Course, "feedback", lambda *_, **__: None)  # nbgrader takes seconds
        return grade(unit, folder, out, GradeOptions(**options))

    run.out, run.folder = out, folder
    return run


MARKS = {"ana": 1, "ben": 1, "chi": 1, "dee": 0, "eve": 0}


def assert_sound(run, results):
    assert {s.student: s.marks for s in results.students} == MARKS
    assert verify.problems(run.out) == [] and Course(run.out / "course", UNIT).scores() == MARKS


def test_a_power_cut_at_any_step_costs_at_most_what_was_being_done(class_, monkeypatch):
    first = Here()
    with monkeypatch.context() as patch:  # ben's is in the journal, and half in the gradebook

        def record(self, student, executed, results, stock=Course.record):
            stock(self, student, executed, results)
            if student == "ben":
                path = self.folder / "autograded" / student / UNIT / f"{UNIT}.ipynb"
                path.chmod(0o644)  # nbgrader has made it read-only by now, for all but root
                path.write_text('{"cells": [')
                path.chmod(0o444)
                raise PowerCut

        patch.setattr(Course, "record", record)
        with pytest.raises(PowerCut):
            class_(first)
    assert any("not finished" in p for p in verify.problems(class_.out))

    second = Here()
    with monkeypatch.context() as patch:  # the next one's is in the journal, and not in the gradebook

        def not_recorded(self, student, executed, results, stock=Course.record):
            if student == "chi":
                raise PowerCut
            stock(self, student, executed, results)

        patch.setattr(Course, "record", not_recorded)
        with pytest.raises(PowerCut):
            class_(second, resume=True)
    path = class_.out / "journal" / "entries" / "ana.json"
    path.write_bytes(path.read_bytes()[:200])  # and ana's did not reach the disk after all

    third = Here()
    results = class_(third, resume=True)
    assert (first.asked, second.asked, third.asked) == (["ana", "ben"], ["chi"], ["ana", "dee"])
    assert_sound(class_, results)


def test_a_run_that_did_not_end_is_not_begun_anew_unasked(class_):
    def stop(done, result):
        if done == 3:
            raise KeyboardInterrupt
        return result

    with pytest.raises(KeyboardInterrupt):
        class_(Here(stop))
    with pytest.raises(JournalError, match="3 submissions are done.*--resume continues.*--fresh starts a new run"):
        class_(Here())
    seed = Journal(class_.out / "journal").header["seed"]
    again = Here()
    assert_sound(class_, class_(again, fresh=True))
    assert sorted(again.asked) == ["ana", "ben", "chi", "dee"]
    assert Journal(class_.out / "journal").header["seed"] == seed  # the same marks for the same submission


def test_resuming_a_finished_run_grades_what_is_new_or_changed(class_):
    class_(Here())
    (class_.folder / "eve.ipynb").write_bytes((class_.folder / "ana.ipynb").read_bytes())
    (class_.folder / "dee.ipynb").unlink()
    again = Here()
    results = class_(again, resume=True)
    assert again.asked == ["eve"] and {s.student: s.marks for s in results.students}["eve"] == 1


def test_a_lost_submission_is_recorded_with_a_reason_and_tried_again(class_):
    def lose(done, result):
        return {"lost": "the process that graded it was killed by signal 9, 3 times"} if done == 2 else result

    results = class_(Here(lose))
    (lost,) = [s for s in results.students if "killed by signal 9" in s.problem]
    assert lost.student == "ben" and verify.problems(class_.out) == []
    again = Here()
    assert_sound(class_, class_(again, resume=True))
    assert again.asked == ["ben"]


@pytest.mark.parametrize("where", ["journal", "gradebook", "worker"])
def test_a_full_disk_is_said_and_nothing_is_lost(class_, monkeypatch, capsys, where):
    def full(done, result):
        return {"defect": "OSError: No space left on device", "full": True} if done == 2 else result

    def put(self, student, entry, stock=Journal.put):
        if student == "ben":
            raise DiskFull("out/journal/entries (no space left on device)")
        stock(self, student, entry)

    def record(self, student, executed, results, stock=Course.record):
        if student == "ben":
            raise DiskFull("the gradebook or its folders")
        stock(self, student, executed, results)

    with monkeypatch.context() as patch:
        if where == "journal":
            patch.setattr(Journal, "put", put)
        if where == "gradebook":
            patch.setattr(Course, "record", record)
        assert exit_status(lambda: class_(Here(full) if where == "worker" else Here())) == 1
    printed = capsys.readouterr().out
    assert "The disk is full" in printed and "--resume continues" in printed
    again = Here()
    assert_sound(class_, class_(again, resume=True))
    assert "ana" not in again.asked


def test_stopping_says_how_to_go_on(class_, capsys):
    def stop(done, result):
        raise KeyboardInterrupt

    assert exit_status(lambda: class_(Here(stop))) == 130
    assert "--resume continues" in capsys.readouterr().out


def test_the_same_submission_has_the_same_seed_whoever_hands_it_in(class_):
    results = class_(Here())
    seeds = {s.student: s.outcomes[0].verdict.results[0].case for s in results.students if s.outcomes[0].verdict}
    assert seeds["ana"] == seeds["ben"] == seeds["chi"] != seeds["dee"]


def test_what_is_wrong_with_a_grade_book_is_found(class_, capsys):
    class_(Here())
    course = Course(class_.out / "course", UNIT)
    with course.api.gradebook as book:
        submission = book.find_submission(UNIT, "ana")
        submission.notebooks[0].grades[0].auto_score = 0.5
        book.remove_submission(UNIT, "ben")
        book.update_or_create_submission(UNIT, book.update_or_create_student("zoe").id)
        book.db.commit()
    found = verify.problems(class_.out)
    assert [p.split(" ")[0].rstrip(",") for p in found] == ["ben", "zoe", "ana"] and "0.5" in found[-1]
    (course.folder / "gradebook.db").write_bytes(b"no database" * 1000)
    assert "cannot be read" in verify.problems(class_.out)[0]
