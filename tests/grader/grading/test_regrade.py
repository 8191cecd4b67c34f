"""From a platform's zip to its table: late, marked by a person, one exercise graded again, exported."""

import ast
import csv
import io
import json
import sys
import threading
import zipfile
from types import SimpleNamespace

import pytest

from grader.commands import regrade as command
from grader.engines import work
from grader.gradebook.gradebook import Course
from grader.grading.grade import grade
from grader.grading.options import GradeOptions
from grader.grading.regrade import NoRegrade, regrade
from grader.marks.late import Rules
from grader.reports import exports, report
from labutils import exercises
from tests.grader.grading.pretended import Here
from tests.grader.small import EXERCISE, UNIT, right, write_unit

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """Ana on time and right; Ben a day late and wrong; Cem's file is torn. Moodle's names, the times in its zip."""
    folder = tmp_path_factory.mktemp("class")
    unit = write_unit(folder / "solutions")
    good = right(unit)
    files = {
        "Duarte Ana_10001_assignsubmission_file_/x.ipynb": (good, (2026, 11, 20, 12, 0, 0)),
        "Yousuf Ben_10002_assignsubmission_file_/x.ipynb": (good.replace(b"3 * n", b"2 * n"), (2026, 11, 21, 12, 0, 0)),
        "Vega Cem_10003_assignsubmission_file_/x.ipynb": (good[:99], (2026, 11, 20, 12, 0, 0)),
    }
    with zipfile.ZipFile(folder / "moodle.zip", "w") as archive:
        for name, (content, when) in files.items():
            archive.writestr(zipfile.ZipInfo(name, when), content)
    (folder / "late.toml").write_text("due = 2026-11-20T18:00:00\nper_day = 20\n")
    rules = Rules.read(folder / "late.toml")
    grade(unit, folder / "moodle.zip", folder / "out", GradeOptions(seed=5, workers=1, rules=rules))
    return folder


def test_one_exercise_again_and_nothing_else(graded, monkeypatch):
    out = graded / "out"
    before = report.read(out)
    assert [s.student for s in before.students] == ["Duarte Ana", "Vega Cem", "Yousuf Ben"]
    assert before.students[2].late.percent == 20 and before.students[0].late is None

    course = Course(out / "course", UNIT)
    with course.api.gradebook as book:  # a person marks Ben's written answer
        grade_of = book.find_grade("explain", UNIT, UNIT, "Yousuf Ben")
        grade_of.manual_score, grade_of.needs_manual_grade = 1.0, False
        book.find_comment("explain", UNIT, UNIT, "Yousuf Ben").manual_comment = "well seen"
        book.db.commit()

    # The test was wrong: two arrays are what was asked for. The exercise's reference is mended, and judged by again.
    known = exercises.get(EXERCISE)
    monkeypatch.setitem(known.__dict__, "reference", lambda n, itemsize: 2 * n * itemsize)
    here = Here(do=work.do)  # another process would not have the new reference
    results, changes = regrade(out, ["add_bytes"], solutions=graded / "solutions", engine=here)
    assert changes == {"Duarte Ana": (1, 0), "Yousuf Ben": (0, 1)}
    assert "the points of 2 students changed" in results.notes[-1]

    after = {s.student: s for s in report.read(out).students}
    assert after["Duarte Ana"].marks == 0 and after["Yousuf Ben"].marks == 1 and after["Vega Cem"].problem
    final = exports.finals(report.read(out), out)
    ben = final["Yousuf Ben"]
    assert (ben.earned, ben.penalty, ben.score, ben.waiting) == (2.0, 0.4, 1.6, False)
    with course.api.gradebook as book:
        assert book.find_comment("explain", UNIT, UNIT, "Yousuf Ben").manual_comment == "well seen"
        assert book.find_submission(UNIT, "Yousuf Ben").late_submission_penalty == 0.4
    page = (out / "course" / "feedback" / "Yousuf Ben" / UNIT / f"{UNIT}.html").read_text()
    assert "well seen" in page and "Late submission penalty" in page
    record = json.loads((out / "records" / "Yousuf Ben.json").read_text())
    assert record["verdicts"][EXERCISE]["marks"] == 1

    args = SimpleNamespace(out=out, format="moodle", to=None, into=None, column="", out_of=None)
    assert exports.main(args) == 0
    rows = list(csv.reader(io.StringIO((out / "exports" / "moodle.csv").read_text(encoding="utf-8-sig"))))
    assert [r[0] for r in rows[1:]] == ["Participant 10001", "Participant 10003", "Participant 10002"]
    assert rows[3][3:5] == ["1.6", "3"]


def test_no_thread_parses_python(graded):
    """CPython 3.11's parser may crash where two threads use it at once: submissions are parsed in children."""
    parsed, watching = [], True

    def hook(event, arguments):
        if watching and event == "compile" and threading.current_thread() is not threading.main_thread():
            parsed.extend([arguments[1]] * (arguments[1] == "<unknown>"))  # the name that ast.parse gives

    sys.addaudithook(hook)
    own = threading.Thread(target=ast.parse, args=("x",))
    own.start()
    own.join()
    here = Here(do=work.do)  # the judge's threads are of this process
    try:
        regrade(graded / "out", solutions=graded / "solutions", engine=here)
    finally:
        watching = False
    assert sorted(here.asked) == ["Duarte Ana", "Yousuf Ben"] and parsed == ["<unknown>"], "only this test's own thread"


def test_what_cannot_be_graded_again_says_why(graded, tmp_path, capsys):
    with pytest.raises(NoRegrade, match="it has add_bytes"):
        regrade(graded / "out", ["none"], solutions=graded / "solutions")
    assert command.main(SimpleNamespace(out=tmp_path)) == 1 and "There is no run" in capsys.readouterr().out
