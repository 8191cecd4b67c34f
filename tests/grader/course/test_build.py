"""From a text source to a release, and what a build does to the releases that are there."""

import json
from types import SimpleNamespace

import nbformat
import pytest

from grader.__main__ import main
from grader.course import build
from grader.course.build import release_notebook
from grader.course.nbgrader_config import NbGraderAPI, course_config
from grader.course.sources import notebook_bytes, source_notebook
from grader.course.stubs import release_preprocessors
from tests.grader.sample import POINTS, SAMPLE, UNIT, released, run, write_unit

SECRETS = ["3 * n * 4", "product", "== 90", "*= a", "bottleneck", "of the roofs", "BEGIN", "END"]


def test_the_release_holds_stubs_and_no_secrets(tmp_path, capfd):
    root = write_unit(tmp_path)
    assert run(root) == []
    assert capfd.readouterr() == ("", "")
    text = released(root).read_text()
    assert not [secret for secret in SECRETS if secret in text]
    sources = {cell.id: cell.source for cell in nbformat.reads(text, as_version=4).cells}
    assert sources["bytes_moved"].endswith("# YOUR CODE HERE (about 1 line)\nbytes_moved = None")
    assert "saxpy is not written yet" in sources["saxpy"] and '"""a·x + y."""' in sources["saxpy"]
    assert "scale is not written yet" in sources["scale_kernel"]
    assert sources["explain"] == "Why is it slow?\nYOUR ANSWER HERE"
    assert sources["plot"] == "Draw the roofline."
    assert sources["check-saxpy"] == 'lab.check("06_unit/saxpy", saxpy)'


def test_the_file_is_the_same_every_time(tmp_path):
    root = write_unit(tmp_path)
    run(root)
    first = released(root).read_bytes()
    released(root).unlink()
    run(root)
    assert released(root).read_bytes() == first
    assert first.endswith(b"}\n") and first.startswith(b'{\n "cells"')
    data = json.loads(first)
    assert (data["nbformat"], data["nbformat_minor"]) == (4, 5)
    assert data["metadata"] == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }


def test_the_source_notebook_keeps_the_answers(tmp_path):
    notebook = source_notebook(write_unit(tmp_path) / "solutions" / UNIT, POINTS)
    namespace = {}
    for cell in notebook.cells:
        if cell.cell_type == "code" and not cell.source.startswith("%%"):
            exec(cell.source, namespace)
    assert namespace["launch"]() == 5.0


def test_stock_nbgrader_grades_a_release(tmp_path, capfd):
    """A filled release earns its points in nbgrader's own pipeline, with a gradebook and a task cell."""
    root = write_unit(tmp_path)
    source = notebook_bytes(source_notebook(root / "solutions" / UNIT, POINTS))
    for folder in (tmp_path / "source" / UNIT, tmp_path / "submitted" / "ada" / UNIT):
        folder.mkdir(parents=True)
        (folder / f"{UNIT}.ipynb").write_bytes(source)
    config = course_config(tmp_path)
    config.GenerateAssignment.preprocessors = release_preprocessors()
    nbgrader = NbGraderAPI(config=config)
    made = nbgrader.generate_assignment(UNIT)
    assert made["success"], made
    assert capfd.readouterr() == ("", "")
    release = nbformat.read(tmp_path / "release" / UNIT / f"{UNIT}.ipynb", as_version=nbformat.NO_CONVERT)
    assert release == release_notebook(root / "solutions" / UNIT, POINTS)
    graded = nbgrader.autograde(UNIT, "ada")
    assert graded["success"], graded
    with nbgrader.gradebook as gradebook:
        submission = gradebook.find_submission(UNIT, "ada")
        assert (submission.score, submission.max_score) == (3.0, 6.0)


def test_check_compares_and_writes_nothing(tmp_path):
    root = write_unit(tmp_path)
    assert run(root, check=True) == ["06_unit: the released notebook is missing; run `python -m grader build 06_unit`"]
    assert not (root / "notebooks").exists()
    run(root)
    assert run(root, check=True) == []
    released(root).write_text(released(root).read_text().replace("Scale", "scale"))
    released(root, "05_old").parent.mkdir()
    released(root, "05_old").write_text("{}")
    assert run(root, check=True) == [
        "06_unit: the released notebook differs from its source; run `python -m grader build 06_unit`",
        "05_old: the released notebook has no source; run `python -m grader build`",
    ]


def test_mutants_stay_with_the_source(tmp_path):
    root = write_unit(tmp_path)
    folder = root / "solutions" / UNIT / "mutants" / "saxpy"
    folder.mkdir(parents=True)
    folder.with_suffix(".toml").write_text("[wrong]")
    (folder / "small.py").write_text("def saxpy(): pass")
    assert run(root) == []
    assert [path for path in (root / "notebooks").rglob("*") if path.is_file()] == [released(root)]
    released(root).with_name("mutants").mkdir()
    (problem,) = run(root, check=True)
    assert "mutants contains answers and must not be released" in problem


def test_a_full_build_removes_stale_releases_and_nothing_else(tmp_path):
    root = write_unit(tmp_path)
    for name in ("04_kept/notes.txt", "05_old/05_old.ipynb", "05_old2/05_old2.ipynb", "05_old2/mine.txt"):
        path = root / "notebooks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    run(root, units=[UNIT])
    assert (root / "notebooks/05_old/05_old.ipynb").exists()
    run(root)
    left = sorted(str(p.relative_to(root / "notebooks")) for p in (root / "notebooks").rglob("*") if p.is_file())
    assert left == ["04_kept/notes.txt", "05_old2/mine.txt", "06_unit/06_unit.ipynb"]
    assert not (root / "notebooks/05_old").exists()


def test_a_failed_build_leaves_the_old_release_and_builds_the_others(tmp_path):
    root = write_unit(tmp_path)
    run(root)
    before = released(root).read_bytes()
    write_unit(tmp_path, SAMPLE.replace("### END SOLUTION", "", 1))
    write_unit(tmp_path, unit="07_unit")
    (problem,) = run(root)
    assert problem.startswith("06_unit.py, cell 3 (bytes_moved): BEGIN SOLUTION on line 2 has no END")
    assert released(root).read_bytes() == before
    assert released(root, "07_unit").exists()
    assert list(released(root).parent.iterdir()) == [released(root)]


def test_an_unknown_unit_is_named(tmp_path):
    (problem,) = run(write_unit(tmp_path), units=["99_none"])
    assert problem.endswith("99_none.py cannot be read: No such file or directory")


def test_a_folder_without_units_is_no_reason_to_remove_releases(tmp_path):
    root = write_unit(tmp_path / "course")
    run(root)
    (problem,) = run(tmp_path / "elsewhere", out=root / "notebooks")
    assert "holds no unit" in problem
    assert released(root).exists()


def test_the_command(tmp_path, monkeypatch, capsys):
    exercise = SimpleNamespace(points=SimpleNamespace(total=3.0))
    monkeypatch.setattr("labutils.exercises.get", lambda name: exercise)
    root = write_unit(tmp_path)
    assert main(["build", "--check", "--root", str(root)]) == 1
    assert "is missing" in capsys.readouterr().err
    assert main(["build", UNIT, "--root", str(root), "--out", str(root / "elsewhere")]) == 0
    assert capsys.readouterr().out == "06_unit: written, 10 cells\n"
    assert (root / "elsewhere" / UNIT / f"{UNIT}.ipynb").exists()
    with pytest.raises(SystemExit):
        main(["bild"])
    assert "VERB" in capsys.readouterr().err


def test_an_exercise_that_is_not_registered_is_named(tmp_path, monkeypatch, capsys):
    def get(name):
        raise KeyError(f"no exercise is called {name!r}")

    monkeypatch.setattr("labutils.exercises.get", get)
    assert main(["build", "--root", str(write_unit(tmp_path))]) == 1
    assert capsys.readouterr().err == ("06_unit.py, cell 7 (06_unit/saxpy): no exercise is called '06_unit/saxpy'\n")


def test_a_command_that_is_stopped_says_so_and_no_more(monkeypatch, capsys):
    def stopped(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(build, "main", stopped)
    assert main(["build"]) == 130
    assert capsys.readouterr() == ("\nStopped.\n", "")
