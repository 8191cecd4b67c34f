"""nbgrader's exchange from release to feedback by nbgrader's own commands, with the grading in between done here."""

import importlib
from pathlib import Path

import pytest

from grader.course.build import release_notebook
from grader.course.settings import CourseSettings, nbgrader_config
from grader.course.sources import notebook_bytes, source_notebook
from grader.demo.sample import solved
from grader.gradebook.gradebook import Course
from grader.grading.grade import grade
from grader.grading.options import GradeOptions
from grader.grading.verify import problems
from grader.intake import collect as intake
from grader.intake.roster import NOTHING, Entry
from grader.judge.sandbox import SandboxLimits
from tests.grader.grading.test_grade import Pretend, shown_marks
from tests.grader.small import UNIT, write_unit

COMMENT = "Two loads and a store: well seen."


@pytest.fixture
def nbgrader(monkeypatch, tmp_path):
    """Runs one of nbgrader's commands in a folder, in this process: a start of its own takes seconds."""
    for name in ("HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))

    def run(folder: Path, app: str, *arguments: str) -> None:
        monkeypatch.chdir(folder)
        command = getattr(importlib.import_module(f"nbgrader.apps.{app.lower()}"), app)(log_level=40)
        command.initialize([*arguments, "--NbGrader.logfile="])
        command.start()

    return run


@pytest.fixture
def settings(tmp_path, monkeypatch):
    settings = CourseSettings("gpu-2026", exchange=str(tmp_path / "exchange"))
    monkeypatch.setattr(intake, "read_settings", lambda root: settings)
    monkeypatch.setattr(intake, "MENDING", SandboxLimits(seconds=200, cpu_seconds=60))  # a busy machine
    return settings


def test_the_whole_exchange(nbgrader, settings, tmp_path):
    unit = write_unit(tmp_path / "solutions")
    course, out = tmp_path / "course", tmp_path / "out"
    release = course / "notebooks" / UNIT / f"{UNIT}.ipynb"
    release.parent.mkdir(parents=True)
    released = release_notebook(unit)
    good = notebook_bytes(solved(released, source_notebook(unit)))
    release.write_bytes(notebook_bytes(released))
    (course / "nbgrader_config.py").write_text(nbgrader_config(settings, "notebooks"))
    (tmp_path / "exchange").mkdir(mode=0o777)
    nbgrader(course, "ReleaseAssignmentApp", UNIT)

    learners = {name: tmp_path / name for name in ("ana", "ben")}
    for name, folder in learners.items():
        folder.mkdir()
        own = f"c.Exchange.cache = {str(folder / 'cache')!r}\nc.CourseDirectory.student_id = {name!r}\n"
        (folder / "nbgrader_config.py").write_text(nbgrader_config(settings) + own)
        nbgrader(folder, "FetchAssignmentApp", UNIT)
        answer = good if name == "ana" else good.replace(b"3 * n", b"2 * n")
        (folder / UNIT / f"{UNIT}.ipynb").write_bytes(answer)
        nbgrader(folder, "SubmitApp", UNIT)
    nbgrader(course, "CollectApp", UNIT)

    # Also the whole exchange may be graded: it has the release beside the submissions.
    students = [s.student for s in intake.collect(Path(settings.exchange), UNIT, released)]
    assert students == ["ana", "ben"]

    options = GradeOptions(marker=shown_marks, roster=(Entry("Cem Kaya", "cem", "", "nbgrader"),))
    results = grade(unit, course / "submitted", out, options, engine=Pretend())
    assert [s.problem for s in results.students] == ["", "", NOTHING]
    assert {s.student: s.marks for s in results.students} == {"ana": 1, "ben": 0, "cem": 0}
    assert results.students[-1].problem == NOTHING and problems(out) == []

    graded = Course(out / "course", UNIT)
    with graded.api.gradebook as book:  # what the formgrader does
        grading = book.find_grade("explain", UNIT, UNIT, "ana")
        grading.manual_score, grading.needs_manual_grade = 2.0, False
        book.find_comment("explain", UNIT, UNIT, "ana").manual_comment = COMMENT
        book.db.commit()
    nbgrader(out / "course", "GenerateFeedbackApp", UNIT, "--force")
    nbgrader(out / "course", "ReleaseFeedbackApp", UNIT)
    for name, folder in learners.items():
        nbgrader(folder, "FetchFeedbackApp", UNIT)
        (page,) = (folder / UNIT / "feedback").rglob(f"{UNIT}.html")
        assert (COMMENT in page.read_text()) == (name == "ana")
    assert graded.scores() == {"ana": 3, "ben": 0, "cem": 0}
