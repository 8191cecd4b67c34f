"""`python -m grader course`: its files from flags, and all units in one table."""

import argparse
import csv

import pytest

from grader.commands import course
from grader.course.settings import CourseSettings, read_settings
from grader.intake.roster import Entry
from grader.marks.results import Check, ClassResults, Graded, Origin, Outcome
from grader.reports import report
from grader.reports.course_results import GradedUnit, table
from grader.reports.exports import Final


def run(*arguments):
    parser = argparse.ArgumentParser()
    course.add_arguments(parser)
    return course.main(parser.parse_args([str(a) for a in arguments]))


@pytest.fixture
def root(tmp_path):
    for unit in ("00_start", "06_unit"):
        (tmp_path / "solutions" / unit).mkdir(parents=True)
        (tmp_path / "solutions" / unit / f"{unit}.py").write_text("")
    (tmp_path / "roster.csv").write_text("name,email\nAna Duarte,a@x.org\nBen,\nCem,\n")
    return tmp_path


def test_flags_become_the_courses_files_and_stay(root, capsys):
    given = ["--course-id", "gpu-1", "--exchange", "/srv/x", "--roster", "roster.csv", "--weight", "06_unit=2"]
    assert run("init", "--root", root, *given, "--scale", "A=90", "--scale", "F=0") == 0
    assert run("init", "--root", root, "--yes", "--repository", "https://github.com/uni/gpu") == 0
    settings = read_settings(root)
    assert settings == CourseSettings(
        "gpu-1",
        "https://github.com/uni/gpu",
        exchange="/srv/x",
        roster="roster.csv",
        weights={"06_unit": 2},
        scale={"A": 90, "F": 0},
    )
    text = (root / "nbgrader_config.py").read_text()
    assert '"gpu-1"' in text and '"notebooks"' in text and '"/srv/x"' in text


@pytest.mark.parametrize(
    "flags", [["--weight", "99_none=1"], ["--weight", "06_unit=x"], ["--roster", "none.csv"], ["--repository", "here"]]
)
def test_what_cannot_be_used_is_said_and_nothing_written(root, capsys, flags):
    assert run("init", "--root", root, "--yes", *flags) == 2
    assert capsys.readouterr().err and not (root / "course.toml").exists()


def graded(unit, marks, system="folder"):
    """A class with these points of 4; `marks` by the student's name."""
    students = [
        Graded(name, [Outcome("e", "c", points, 4.0, "", "")], origin=Origin(system, "", name))
        for name, points in marks.items()
    ]
    return ClassResults(unit, unit, [Check("e", "E", "c", 4.0)], students, "", 1, "today")


def unit_of(unit, marks):
    return GradedUnit(graded(unit, marks), {name: Final(points, 0, 4.0) for name, points in marks.items()})


def test_units_count_by_their_weights_and_a_missing_one_as_nothing():
    units = [unit_of("00_start", {"ana duarte": 4, "dora": 2}), unit_of("06_unit", {"Ana Duarte": 3, "Ben": 4})]
    settings = CourseSettings(weights={"06_unit": 3}, scale={"A": 80, "C": 50, "F": 0})
    head, *rows = table(units, settings, [Entry("Ana Duarte", email="a@x.org"), Entry("Ben"), Entry("Cem")])
    assert head == ["name", "id", "email", "00_start", "06_unit", "percent", "grade"]
    assert rows == [
        ["Ana Duarte", "", "a@x.org", "100.0", "75.0", "81.2", "A"],
        ["Ben", "", "", "0.0", "100.0", "75.0", "C"],
        ["Cem", "", "", "0.0", "0.0", "0.0", "F"],
        ["dora", "", "", "50.0", "0.0", "12.5", "F"],
    ]
    assert [row[5] for row in table(units, CourseSettings())[1:]] == ["50.0", "37.5", "50.0", "25.0"]


def test_the_table_is_written_for_folders(root, capsys):
    for unit in ("00_start", "06_unit"):
        report.write(graded(unit, {"Ana Duarte": 4}), root / "out" / unit)
    (root / "course.toml").write_text('roster = "roster.csv"\n')
    assert run("results", "--root", root, root / "out/00_start", root / "out/06_unit") == 0
    assert "3 students, 2 units" in capsys.readouterr().out
    rows = list(csv.reader((root / "out" / "course.csv").read_text(encoding="utf-8-sig").splitlines()))
    assert rows[1][:4] == ["Ana Duarte", "", "a@x.org", "100.0"] and len(rows) == 4
    assert run("results", "--root", root, root / "nothing") == 2
