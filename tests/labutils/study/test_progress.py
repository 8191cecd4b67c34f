"""Progress is one file that the learner owns: it survives damage, and the check writes it."""

import json

import pytest

import labutils as lab
from grader.course.index import path_units
from grader.course.place import ROOT
from labutils import environment, exercises
from labutils.spec.exercise import KernelExercise
from labutils.spec.verdict import CaseResult, Verdict
from labutils.study import hints, progress
from labutils.study.progress import Entry, paths

EXERCISE = "00_start/number_of_programs"
UNITS = list(dict.fromkeys(e.unit for e in exercises.all_exercises().values()))


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    path = tmp_path / "mine" / "progress.json"
    monkeypatch.setenv("GPULAB_PROGRESS", str(path))
    return path


def checked(marks: float, passed: bool = True) -> None:
    exercise = exercises.get(EXERCISE)
    results = [CaseResult("a case")] if passed else []
    progress.note(exercise, Verdict(EXERCISE, "here", results, marks=marks, points=exercise.points.total))


def test_a_check_is_remembered_with_the_best_points(capsys):
    lab.check(EXERCISE, lambda n, block: n // block)
    lab.check(EXERCISE, lambda n, block: -(-n // block))
    lab.check(EXERCISE, lambda n, block: n // block)
    entry = lab.progress().entries[EXERCISE]
    assert entry.points == entry.total == exercises.get(EXERCISE).points.total
    assert entry.checks == 3 and lab.progress().done(EXERCISE)


def test_a_graded_check_is_nobodys_progress(file, monkeypatch, capsys):
    monkeypatch.setenv("GPULAB_SEED", "7")
    lab.check(EXERCISE, lambda n, block: -(-n // block))
    assert not file.exists()


def test_a_failed_check_is_not_done():
    checked(0.0, passed=False)
    assert not progress.progress().done(EXERCISE)
    assert progress.progress().following("a day") == EXERCISE


def test_the_next_exercise_of_every_path_is_the_first_that_is_not_done():
    checked(1.0)
    known = progress.progress()
    assert {known.following(path) for path in paths()} == {"00_start/scale"}
    shown = repr(known)
    assert "1 of 3" in shown and "in a week: 00_start/scale" in shown and str(known.file) in shown


def test_paths_are_those_of_the_readme():
    course = path_units((ROOT / "README.md").read_text(encoding="utf-8"))
    assert {name.lower(): units for name, units in course.items()} == paths()
    for path, units in paths().items():
        shown = [e.unit for e in progress._course(path)]
        assert list(dict.fromkeys(shown)) == units if units else set(shown) == set(UNITS)


@pytest.mark.parametrize("text", ["{", "[]", '{"exercises": {"a": {"unknown": 1}}}', '{"exercises": [1]}', "\xff"])
def test_a_damaged_file_is_put_aside_and_not_lost(file, text, capsys):
    file.parent.mkdir()
    file.write_bytes(text.encode("latin-1"))
    checked(1.0)
    assert "could not be read" in capsys.readouterr().out
    assert progress.progress().done(EXERCISE)
    (aside,) = file.parent.glob("progress.json.unreadable-*")
    assert aside.read_bytes() == text.encode("latin-1")


def test_a_write_that_fails_leaves_the_old_file(file, monkeypatch):
    checked(1.0)
    before = file.read_text()

    def full(*args):
        raise OSError("No space left on device")

    monkeypatch.setattr(progress.os, "replace", full)
    checked(1.0)
    assert file.read_text() == before
    assert sorted(p.name for p in file.parent.iterdir()) == ["progress.json", "progress.json.lock"]


def test_where_nothing_can_be_written_the_check_goes_on(tmp_path, monkeypatch, capsys):
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("GPULAB_PROGRESS", str(tmp_path / "a file" / "progress.json"))
    assert lab.check(EXERCISE, lambda n, block: -(-n // block)) > 0


def test_the_file_is_plain_json(file):
    checked(1.0)
    assert json.loads(file.read_text())["exercises"][EXERCISE]["checks"] == 1
    assert progress.read(file).entries == {EXERCISE: Entry(1.0, 1.0, 1, 0, progress.progress().of(EXERCISE).passed)}


def test_the_file_is_in_the_data_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("GPULAB_PROGRESS")
    monkeypatch.setattr(environment.sys, "platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert environment.progress_file() == tmp_path / "gpu-kernel-lab" / "progress.json"


def test_hints_come_one_by_one_and_are_remembered(capsys):
    for count in (1, 2, 3, 3):
        lab.hint("06_elementwise_triton/vector_add")
        shown = capsys.readouterr().out
        assert shown.count("Hint ") == count
    assert "These are all hints" in shown
    assert progress.progress().of("06_elementwise_triton/vector_add").hints == 3


def test_the_kernel_of_a_hunt_has_the_hint_for_its_bug():
    (text,) = hints.of(exercises.get("11_hunt/histogram"))
    assert text.startswith("`histogram`") and text in hints.stored()["11_hunt/bug"]


def test_every_kernel_has_hints_of_its_own():
    kernels = [e for e in exercises.all_exercises().values() if isinstance(e, KernelExercise)]
    assert [e.id for e in kernels if not hints.of(e)] == []
    ours = [text for e in kernels if e.unit == "09_shared_memory" for text in hints.of(e)]
    assert len(ours) == len(set(ours))


def test_an_exercise_without_hints_says_so(capsys):
    lab.hint("06_elementwise_triton/add_bytes")
    assert "no hints for" in capsys.readouterr().out
    lab.hint("06_elementwise_triton/vector_ad")
    assert "did you mean" in capsys.readouterr().out
