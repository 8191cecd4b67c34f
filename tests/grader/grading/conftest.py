"""A class of five, graded by an engine that pretends."""

import shutil

import pytest

from grader import engines
from grader.course.sources import source_notebook
from grader.gradebook.gradebook import Course
from grader.grading.grade import grade
from grader.grading.options import GradeOptions
from tests.grader.grading.pretended import quick_feedback
from tests.grader.small import UNIT, right, write_unit


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
        monkeypatch.setattr(Course, "feedback", quick_feedback)
        return grade(unit, folder, out, GradeOptions(**options))

    run.out, run.folder = out, folder
    return run
