"""A walkthrough opens when the check gave full points or when it is asked for, as far as the course allows it."""

import datetime

import pytest

import labutils as lab
from labutils import exercises
from labutils.spec.verdict import CaseResult, Verdict
from labutils.study import progress, walkthroughs
from labutils.study.walkthroughs import Answers, Walkthrough

LAST = "12_online_softmax/one_launch_softmax"
EXERCISE, UNIT = "00_start/scale", "06_elementwise_triton"
TEXTS = {"why": "One load, one store.", "production": "It is fused.", "tried": "No mask: it read past the end."}


@pytest.fixture(autouse=True)
def shipped(tmp_path, monkeypatch):
    """What a learner has: progress of their own, and a file with one walkthrough and one model answer."""
    monkeypatch.setenv("GPULAB_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.delenv(walkthroughs.RULE, raising=False)
    found = {
        "exercises": {EXERCISE: {"code": "def scale():\n    pass\n", **TEXTS}},
        "questions": {UNIT: [["Why?", "Because of the bytes."]]},
    }
    monkeypatch.setattr(walkthroughs, "stored", lambda: found)
    return found


def note(name: str = EXERCISE, marks: float | None = None) -> Verdict:
    exercise = exercises.get(name)
    total = exercise.points.total
    verdict = Verdict(name, "here", [CaseResult("a case")], marks=total if marks is None else marks, points=total)
    progress.note(exercise, verdict)
    return verdict


def test_before_the_exercise_is_solved_it_says_what_to_do(capsys):
    assert lab.walkthrough(EXERCISE) is None
    said = capsys.readouterr().out
    assert said.count("\n") == 1 and f'lab.check("{EXERCISE}")' in said and "anyway=True" in said


def test_it_opens_with_full_points_or_for_the_asking():
    assert isinstance(lab.walkthrough(EXERCISE, anyway=True), Walkthrough)
    note(marks=0.5)
    assert lab.walkthrough(EXERCISE) is None
    note()
    assert isinstance(lab.walkthrough(EXERCISE), Walkthrough)


def test_it_shows_code_texts_and_the_next_exercise():
    shown = lab.walkthrough(EXERCISE, anyway=True)
    assert shown.following == "00_start/scale_cuda"
    for text in (repr(shown), shown._repr_mimebundle_()["text/markdown"]):
        assert all(part in text for part in ("def scale():", *TEXTS.values(), 'lab.check("00_start/scale_cuda")'))
    assert "```python" in shown._repr_mimebundle_()["text/markdown"]


def test_the_last_exercise_has_no_next_one():
    last = progress.in_order()[-1]
    assert progress.following(last.id) is None


def test_the_next_one_is_the_notebooks_next_one():
    assert progress.following("08_hunt/bug") == "08_hunt/bias_scale"
    assert progress.following("10_warp_reduction/sum_v6") == "10_warp_reduction/row_sum"
    assert progress.following("08_hunt/transpose") == "09_hunt/bug"


def test_after_the_last_exercise_of_a_notebook_comes_another_notebook(shipped):
    shipped["exercises"] |= {name: shipped["exercises"][EXERCISE] for name in ("09_debugging/fix_gelu", LAST)}
    shown = [repr(lab.walkthrough(name, anyway=True)) for name in ("09_debugging/fix_gelu", LAST)]
    assert shown[0].endswith("Next: the notebook `10_hunt`, a bug hunt, or `10_reduction`.")
    assert shown[1].endswith("Next: the notebook `13_fusion`.")


def test_a_check_with_full_points_offers_it():
    exercise = exercises.get(EXERCISE)
    assert f'lab.walkthrough("{EXERCISE}")' in walkthroughs.offer(exercise, note())
    assert walkthroughs.offer(exercise, note(marks=0.5)) == ""
    other = exercises.get("00_start/scale_cuda")
    assert walkthroughs.offer(other, note(other.id)) == ""


def test_model_answers_open_when_the_unit_is_solved(capsys):
    assert lab.walkthrough(UNIT) is None
    assert "06_elementwise_triton/" in capsys.readouterr().out
    assert isinstance(lab.walkthrough(UNIT, anyway=True), Answers)
    for exercise in exercises.all_exercises().values():
        if exercise.unit == UNIT:
            note(exercise.id)
    shown = lab.walkthrough(UNIT)
    assert "Because of the bytes." in repr(shown) and "Why?" in shown._repr_mimebundle_()["text/markdown"]


def test_a_course_may_switch_it_off(monkeypatch, capsys):
    verdict = note()
    monkeypatch.setenv(walkthroughs.RULE, "off")
    assert lab.walkthrough(EXERCISE) is None and lab.walkthrough(EXERCISE, anyway=True) is None
    assert "switched" in capsys.readouterr().out
    assert walkthroughs.offer(exercises.get(EXERCISE), verdict) == ""


def test_a_course_may_open_it_to_those_who_passed(monkeypatch, capsys):
    monkeypatch.setenv(walkthroughs.RULE, "passed")
    assert lab.walkthrough(EXERCISE, anyway=True) is None
    note()
    assert isinstance(lab.walkthrough(EXERCISE), Walkthrough)


@pytest.mark.parametrize(("days", "open"), [(1, False), (0, True), (-1, True)])
def test_a_course_may_open_it_on_a_day(monkeypatch, capsys, days, open):
    first = datetime.date.today() + datetime.timedelta(days=days)
    monkeypatch.setenv(walkthroughs.RULE, str(first))
    assert (lab.walkthrough(EXERCISE, anyway=True) is not None) is open
    assert (str(first) in capsys.readouterr().out) is not open


def test_a_wrong_rule_keeps_it_shut(monkeypatch, capsys):
    monkeypatch.setenv(walkthroughs.RULE, "next week")
    assert lab.walkthrough(EXERCISE, anyway=True) is None
    assert "2027-01-15" in capsys.readouterr().out


def test_a_copy_of_the_course_without_the_file_says_so(monkeypatch, tmp_path, capsys):
    monkeypatch.undo()
    monkeypatch.setattr(walkthroughs, "PATH", tmp_path / "not here.json")
    walkthroughs.stored.cache_clear()
    try:
        assert lab.walkthrough(EXERCISE, anyway=True) is None and lab.walkthrough(UNIT, anyway=True) is None
        said = capsys.readouterr().out
        assert "has no walkthrough" in said and "no model answers" in said
    finally:
        walkthroughs.stored.cache_clear()


def test_an_unknown_name_is_answered(capsys):
    assert lab.walkthrough("00_start/scal") is None
    assert "did you mean" in capsys.readouterr().out


def test_it_is_skipped_while_a_class_is_graded(monkeypatch, capsys):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert lab.walkthrough(EXERCISE, anyway=True) is None
    assert "skipped" in capsys.readouterr().out
