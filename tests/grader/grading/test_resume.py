"""Whatever ends a run, --resume grades every submission exactly once, and the gradebook is sound."""

import functools
import json
import shutil
from argparse import Namespace

import pytest

from grader.course.sources import ROOT
from grader.gradebook import provenance
from grader.gradebook.gradebook import Course
from grader.gradebook.journal import DiskFull, Journal, JournalError
from grader.grading import verify
from grader.grading.grade import exit_status, grade
from grader.grading.options import GradeOptions
from grader.intake.roster import NOTHING, Entry
from grader.judge import sandbox
from grader.marks.late import Rules
from tests.grader.grading.pretended import Here, PowerCut, marks_of
from tests.grader.small import UNIT

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


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_with_a_finished_run_gets_what_is_new_or_changed_and_keeps_the_rest(class_, good, resume):
    class_(Here())
    for path in class_.folder.iterdir():
        path.unlink()
    (class_.folder / "dee.ipynb").write_bytes(good)  # handed in again
    (class_.folder / "zoe.ipynb").write_bytes(good)  # a late student
    again = Here()
    results = class_(again, resume=resume)
    assert sorted(again.asked) == ["dee", "zoe"]
    assert marks_of(results) == {**MARKS, "dee": 1, "zoe": 1} and verify.problems(class_.out) == []
    assert len((class_.out / "grades.csv").read_text().splitlines()) == 7
    reasons = json.loads((class_.out / "set_aside" / "reasons.json").read_text())
    assert [r["student"] for r in reasons] == ["eve"]  # who is not in this hand-in


def test_another_unit_is_refused_whatever_is_asked(class_, unit, tmp_path):
    class_(Here())
    other = tmp_path / "solutions" / "07_other"
    for options in ({}, {"resume": True}, {"fresh": True}):
        with pytest.raises(JournalError, match=f"holds {UNIT}: grade 07_other into a folder of its own"):
            grade(other, class_.folder, class_.out, GradeOptions(**options), engine=Here())
    assert verify.problems(class_.out) == []


def test_a_new_run_replaces_everything_when_that_is_asked_for(class_):
    class_(Here())
    for name in ("ben", "chi", "eve"):
        (class_.folder / f"{name}.ipynb").unlink()

    def stop(done, result):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        class_(Here(stop), fresh=True)
    results = class_(Here(), resume=True)  # what the killed one had to remove is known
    assert marks_of(results) == {"ana": 1, "dee": 0} and verify.problems(class_.out) == []
    assert Course(class_.out / "course", UNIT).scores() == {"ana": 1, "dee": 0}


def test_what_a_killed_run_expected_is_graded_also_when_others_are_handed_in(class_, good):
    def stop(done, result):
        if done == 2:
            raise KeyboardInterrupt
        return result

    with pytest.raises(KeyboardInterrupt):
        class_(Here(stop))
    for path in class_.folder.iterdir():
        path.unlink()
    (class_.folder / "zoe.ipynb").write_bytes(good)
    again = Here()
    results = class_(again, resume=True)
    assert marks_of(results) == {**MARKS, "zoe": 1} and sorted(again.asked) == ["ben", "chi", "dee", "zoe"]
    assert verify.problems(class_.out) == []


def test_the_roster_knows_addresses_that_files_do_not_and_rules_may_name(class_):
    rules = Rules.parse("due = 2020-01-01T00:00:00\nper_day = 50\n[extensions]\n'ana@x.org' = 2099-01-01T00:00:00")
    roster = (Entry("ana", email="ana@x.org"), Entry("Zoe", email="zoe@x.org"))
    students = {s.student: s for s in class_(Here(), rules=rules, roster=roster).students}
    assert students["ana"].origin.email == "ana@x.org" and students["ana"].late is None
    assert students["ben"].origin.email == "" and students["ben"].late.percent == 100
    assert students["Zoe"].problem == NOTHING and verify.problems(class_.out) == []
    again = Here()
    class_(again)  # without the roster: the address stays
    assert again.asked == [] and {s.student: s for s in class_(Here()).students}["ana"].origin.email == "ana@x.org"


def test_the_late_rules_stay_with_the_run(class_, good):
    rules = Rules.parse("due = 2020-01-01T00:00:00\nper_day = 50\n[extensions]\nann = '2 days'")
    results = class_(Here(), rules=rules)
    assert {s.student: s.score for s in results.students}["ana"] == 0
    assert "The late rules name 'ann', who submitted nothing." in results.notes
    (class_.folder / "zoe.ipynb").write_bytes(good)
    assert all(s.late for s in class_(Here()).students if not s.problem)
    assert verify.problems(class_.out) == []


def test_a_change_of_the_course_is_named_and_can_be_accepted(class_, good, monkeypatch):
    monkeypatch.setattr(sandbox, "warning", lambda: None)  # the notes are this change's alone, on every machine
    class_(Here())
    (class_.folder / "zoe.ipynb").write_bytes(good)
    now = provenance.packages() | {"torch": "1.0"}
    monkeypatch.setattr(provenance, "packages", lambda: now)
    with pytest.raises(JournalError, match="torch changed. --accept-changes keeps.*regrade.*--fresh"):
        class_(Here())
    again = Here()
    results = class_(again, accept_changes=True)
    assert again.asked == ["zoe"] and len(results.students) == 6
    assert results.notes == ["Points from before and after a change of torch are in one class."]
    assert class_(Here()).notes == results.notes and verify.problems(class_.out) == []


def test_an_edit_of_another_unit_or_of_what_notebooks_show_blocks_nobody(class_, good, monkeypatch, tmp_path):
    root = tmp_path / "course"
    for name in ("labutils", "grader"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(provenance, "code", functools.partial(provenance.code, root=root))
    class_(Here())

    def edit(name):
        with (root / "labutils" / name).open("a") as file:
            file.write("# a line\n")

    for late, names in {"yan": ["exercises/softmax.py"], "zoe": ["lessons/attention.py", "plots/charts.py"]}.items():
        for name in names:
            edit(name)
        (class_.folder / f"{late}.ipynb").write_bytes(good)
        again = Here()
        class_(again, resume=late == "yan")
        assert again.asked == [late]
    edit("check/compare.py")  # which all units share
    with pytest.raises(JournalError, match="labutils/check/compare.py changed"):
        class_(Here())


def test_whatever_is_lost_of_what_a_class_shows_is_made_from_the_journal(class_, capsys):
    class_(Here())
    out = class_.out
    before = (out / "grades.csv").read_bytes()
    (out / "grades.csv").write_bytes(before.replace(b"ana,1", b"ana,0"))
    (out / "report.html").unlink()
    (out / "feedback" / "ben.html").write_text("half")
    (out / "records" / "chi.json").unlink()
    shutil.rmtree(out / "course" / "submitted")  # not in a backup
    shutil.rmtree(out / "course" / "autograded" / "dee")
    (out / "course" / "feedback" / "ana" / UNIT / f"{UNIT}.html").write_text("<html>")
    course = Course(out / "course", UNIT)
    with course.api.gradebook as book:
        book.remove_submission(UNIT, "ben")
        book.db.commit()
    found = " ".join(verify.problems(out))
    for one in ("grades.csv", "report.html", "feedback/ben.html", "chi: the verdict record", "ben is not in"):
        assert one in found
    assert verify.main(Namespace(out=out, repair=True)) == 0
    assert "exactly once" in capsys.readouterr().out and (out / "grades.csv").read_bytes() == before
    assert course.scores() == MARKS


def test_points_that_are_in_the_tables_alone_are_found(class_):
    class_(Here())
    path = class_.out / "grades.json"
    data = json.loads(path.read_text())
    data["students"][0]["outcomes"][0]["marks"] = data["students"][0]["marks"] = 0.5
    path.write_text(json.dumps(data))
    assert verify.problems(class_.out) == ["ana: 0.5 in grades.json, 1.0 in the journal."]


def test_two_students_of_one_name_are_told_apart_by_the_platforms_number(class_, good):
    def hand_in(*numbers):
        for path in class_.folder.iterdir():
            path.unlink() if path.is_file() else shutil.rmtree(path)
        for number in numbers:
            folder = class_.folder / f"Ana Diaz_{number}_assignsubmission_file_"
            folder.mkdir()
            (folder / "x.ipynb").write_bytes(good)

    hand_in(11, 12)
    assert sorted(marks_of(class_(Here()))) == ["Ana Diaz", "Ana Diaz 12"]
    hand_in(12)
    again = Here()
    class_(again)
    hand_in(13)
    assert again.asked == [] and sorted(marks_of(class_(Here()))) == ["Ana Diaz", "Ana Diaz 12", "Ana Diaz 13"]
    for path in class_.folder.iterdir():
        shutil.rmtree(path)
    (class_.folder / "Ana Diaz.ipynb").write_bytes(good.replace(b"3 * n", b"2 * n"))  # by e-mail
    ana = next(s for s in class_(Here()).students if s.student == "Ana Diaz")
    assert (ana.marks, ana.origin.system, ana.origin.id) == (0, "moodle", "11")
    assert verify.problems(class_.out) == []


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
