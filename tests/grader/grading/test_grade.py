"""A small class through all of grading: real kernels, nbgrader's own gradebook and feedback, the exports."""

import csv
import json
import shutil
from argparse import ArgumentParser, Namespace
from types import SimpleNamespace

import nbformat
import pytest
from nbformat.v4 import new_output

from grader import engines
from grader.__main__ import main
from grader.commands import grade as command
from grader.commands import progress
from grader.course.sources import source_notebook
from grader.gradebook.gradebook import Course, GradebookError
from grader.grading.grade import grade
from grader.grading.options import GradeOptions
from grader.judge import sandbox
from grader.marks.marks import Result
from tests.grader.small import UNIT, right, write_unit


@pytest.fixture(scope="module")
def unit(tmp_path_factory):
    return write_unit(tmp_path_factory.mktemp("solutions"))


@pytest.fixture(scope="module")
def good(unit):
    return right(unit)


@pytest.fixture(scope="module")
def gradebook(unit, tmp_path_factory):
    """A gradebook that knows the unit: nbgrader takes seconds to make a new one."""
    course = Course(tmp_path_factory.mktemp("course"), UNIT)
    course.release(source_notebook(unit))
    return course.folder / "gradebook.db"


@pytest.fixture
def out(gradebook, tmp_path):
    (tmp_path / "out" / "course").mkdir(parents=True)
    shutil.copy(gradebook, tmp_path / "out" / "course")
    return tmp_path / "out"


@pytest.fixture
def submissions(good, tmp_path):
    """Four students: right, wrong, killing its kernel, and no notebook at all."""
    folder = tmp_path / "submissions"
    folder.mkdir()
    (folder / "right.ipynb").write_bytes(good)
    (folder / "wrong.ipynb").write_bytes(good.replace(b"3 * n", b"2 * n"))
    (folder / "dies.ipynb").write_bytes(good.replace(b'"def add_bytes', b'"import os; os._exit(1)\\n", "def add_bytes'))
    (folder / "torn.ipynb").write_bytes(good[:500])
    return folder


def test_a_class_from_submissions_to_reports(unit, submissions, tmp_path, capsys):
    args = arguments(seed=5, workers=2, verbose=True)
    results = progress.grade_and_report(
        unit, submissions, tmp_path / "out", progress.options_of(args), verbose=args.verbose
    )
    students = {s.student: s for s in results.students}
    assert {name: s.marks for name, s in students.items()} == {"dies": 0, "right": 1, "torn": 0, "wrong": 0}
    assert students["dies"].outcomes[0].kind == "died" and "exit code 1" in students["dies"].events[0]
    assert "not JSON" in students["torn"].problem and results.manual == 2 and results.points == 1

    assert Course(tmp_path / "out" / "course", UNIT).scores() == {"dies": 0, "right": 1, "torn": 0, "wrong": 0}
    pages = sorted(p.parts[-3] for p in (tmp_path / "out" / "course" / "feedback").rglob("*.html"))
    assert pages == ["dies", "right", "wrong"]

    rows = list(csv.reader((tmp_path / "out" / "grades.csv").read_text(encoding="utf-8-sig").splitlines()))
    assert rows[0] == ["student", "add_bytes", "marks", "points", "open", "penalty", "score", "what happened"]
    assert [row[:4] for row in rows[1:]][1] == ["right", "1", "1", "1"]
    assert json.loads((tmp_path / "out" / "grades.json").read_text())["seed"] == 5
    printed = capsys.readouterr().out
    assert "4 submissions" in printed and "died" in printed and "run and judge" in printed


def arguments(**given):
    """What the command line would give."""
    plain = dict(seed=None, workers=None, verbose=False, trust_notebooks=False, late=None, executor="local")
    plain |= dict(
        resume=False, fresh=False, yes=False, accept_changes=False, gpus=None, scheduler=None, no_tls=False, slurm=[]
    )
    return Namespace(**plain | given)


class Pretend:
    """An engine that executes nothing: every check shows what the answer cell seems to be worth."""

    workers = 2

    def __init__(self):
        self.asked = []

    def run(self, jobs):
        for job in jobs:
            self.asked.append(job["key"])
            notebook = nbformat.reads(job["notebook"], as_version=4)
            cells = {c.id: c for c in notebook.cells}
            right = "3 * n" in cells["add_bytes"].source
            cells["check-add_bytes"].outputs = [
                new_output("execute_result", data={"text/plain": str(float(right))}, execution_count=1)
            ]
            log = {"events": [], "cells": {}, "seconds": 1.0}
            yield job["key"], {"notebook": nbformat.writes(notebook), "log": log, "verdicts": {}, "record": {}}

    def running(self):
        return {}

    def close(self):
        pass


@pytest.fixture
def without_kernels(monkeypatch):
    """Returns the students in the order in which they were graded."""
    engine = Pretend()
    monkeypatch.setattr(engines, "open_engine", lambda *_, **__: engine)
    return engine.asked


def shown_marks(cell):
    """A marker that believes what a check shows."""
    return Result(float(cell.outputs[-1].data["text/plain"]), None, "As shown.")


def test_the_marks_come_through_one_function(unit, submissions, out, without_kernels):
    results = grade(unit, submissions, out, GradeOptions(marker=lambda cell: Result(0.5, None, "Half for all.")))
    assert {s.student: s.marks for s in results.students} == {"dies": 0.5, "right": 0.5, "torn": 0, "wrong": 0.5}
    assert Course(out / "course", UNIT).scores()["wrong"] == 0.5


def test_what_nbgrader_cannot_do_stops_nobody(unit, submissions, out, without_kernels, monkeypatch):
    def record(self, student, executed, results, stock=Course.record):
        if student == "right":
            raise GradebookError("nbgrader cannot record the marks of right: disk full")
        stock(self, student, executed, results)

    def sanitized(self, student, stock=Course.sanitized):
        if student == "dies":
            raise RuntimeError("Inconsistent checksums")
        return stock(self, student)

    def feedback(self, *_, **__):
        raise GradebookError("nbgrader cannot write the feedback: no template")

    for name, broken in {"record": record, "sanitized": sanitized, "feedback": feedback}.items():
        monkeypatch.setattr(Course, name, broken)
    results = grade(unit, submissions, out, GradeOptions(marker=shown_marks))
    problems = {s.student: s.problem for s in results.students}
    assert "disk full" in problems["right"] and "Inconsistent checksums" in problems["dies"] and not problems["wrong"]
    assert results.notes == ["Nbgrader cannot write the feedback: no template."]
    assert Course(out / "course", UNIT).scores() == {"dies": 0, "right": 0, "torn": 0, "wrong": 0}


def test_grading_again_follows_what_was_handed_in_again(unit, submissions, out, without_kernels):
    def pages():
        return {p.parts[-3]: p.read_text() for p in (out / "course" / "feedback").rglob("*.html")}

    grade(unit, submissions, out, GradeOptions(marker=shown_marks))
    before = pages()
    (submissions / "torn.ipynb").write_bytes((submissions / "right.ipynb").read_bytes())
    (submissions / "wrong.ipynb").write_bytes((submissions / "right.ipynb").read_bytes())
    (submissions / "right.ipynb").write_bytes(b"")
    grade(unit, submissions, out, GradeOptions(marker=shown_marks))
    assert Course(out / "course", UNIT).scores() == {"dies": 1, "right": 0, "torn": 1, "wrong": 1}
    after = pages()
    assert sorted(after) == ["dies", "torn", "wrong"]
    assert "(Score: 0.0 / 1.0)" in before["wrong"] and "(Score: 1.0 / 1.0)" in after["wrong"]


@pytest.mark.parametrize("warning", [None, "Nothing isolates submissions here."])
def test_a_class_in_which_nothing_can_be_graded_has_results(unit, submissions, out, monkeypatch, warning):
    monkeypatch.setattr(sandbox, "warning", lambda: warning)
    for path in submissions.iterdir():
        path.write_bytes(b"")
    results = grade(unit, submissions, out)
    assert [s.marks for s in results.students] == [0, 0, 0, 0]
    assert results.notes == ([warning] if warning else [])
    assert results.device == "nothing ran"


def test_the_slowest_of_the_last_time_go_first(unit, submissions, out, without_kernels):
    students = [{"student": "right", "seconds": 2}, {"student": "wrong", "seconds": 9}]
    (out / "grades.json").write_text(json.dumps({"students": students}))
    grade(unit, submissions, out, GradeOptions(marker=shown_marks))
    assert without_kernels == ["dies", "wrong", "right"]


@pytest.mark.parametrize(
    "given, executor", [([], "local"), (["--executor", "dask"], "dask"), (["--backend", "dask"], "dask")]
)
def test_the_executor_has_an_old_name_too(given, executor):
    parser = ArgumentParser()
    command.add_common_arguments(parser)
    assert progress.options_of(parser.parse_args([*given, "--seed", "3"], arguments())).executor == executor
    assert "--executor" in parser.format_help() and "--backend" not in parser.format_help()


def test_a_run_is_replaced_only_when_a_person_says_so(tmp_path, capsys, monkeypatch):
    assert command.may_replace(tmp_path), "there is nothing to replace"
    (tmp_path / "journal" / "entries").mkdir(parents=True)
    (tmp_path / "journal" / "entries" / "ana.json").touch()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: False))
    assert command.main(arguments(unit=UNIT, submissions=tmp_path, out=tmp_path, fresh=True)) == 1
    assert "a run with 1 submissions" in (printed := capsys.readouterr().out) and "--yes replaces it" in printed
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    assert command.may_replace(tmp_path, lambda question: "yes") and not command.may_replace(tmp_path, lambda _: "")


def test_a_folder_that_cannot_be_used_is_said_in_a_sentence(tmp_path, capsys, without_kernels):
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "entries").write_text("")  # root may write anywhere, but not into this
    said = f"{tmp_path}/journal/entries cannot be used: File exists.\n"
    for verb in (["verify", str(tmp_path)], ["grade", UNIT, "--submissions", str(tmp_path), "--out", str(tmp_path)]):
        assert main(verb) == 1 and capsys.readouterr().out == said


def test_an_unknown_unit_or_folder_is_said(tmp_path, capsys):
    args = arguments(unit="99_none", submissions=tmp_path, out=None)
    assert command.main(args) == 2 and "no unit '99_none'" in capsys.readouterr().out
    args.unit, args.submissions = UNIT, tmp_path / "none"
    assert command.main(args) == 2 and "is not a folder" in capsys.readouterr().out
