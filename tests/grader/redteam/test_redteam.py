"""Every attack is refused or without effect, every honest control accepted."""

import functools
import time
import zlib

import pytest

from grader.judge import sandbox
from grader.redteam import corpus, run
from labutils import exercises
from labutils.spec.verdict import CaseResult, Verdict

TRIALS = corpus.trials()


def is_slow(trial) -> bool:
    """A fifth of attacks and controls is tried in every run, and what needs a GPU; `pytest -m slow` tries the rest.
    Without namespaces each takes many seconds, and a tenth must do."""
    share = zlib.crc32(trial.id.encode())
    if not sandbox.bubblewrap():
        return trial.slow or share % 10 != 0
    return trial.slow or (not trial.needs_gpu and share % 5 != 0)


@pytest.fixture(scope="module", autouse=True)
def warm():
    sandbox.warm_up("launch", "replay", "compile")


OPEN: set[str] = set()
"""Attacks that still succeed without a GPU; docs/judging.md says why. What is fixed leaves this list."""


def marks(trial):
    found = [pytest.mark.slow] if is_slow(trial) else []
    if trial.family == "controls" and trial.path.suffix == ".cu":  # to be accepted, it must run
        found.append(pytest.mark.compiler)
    return [*found, pytest.mark.xfail(reason="an open hole", strict=True)] if trial.id in OPEN else found


@pytest.mark.parametrize("trial", [pytest.param(t, id=t.id, marks=marks(t)) for t in TRIALS])
def test_trial(trial):
    result = run.attempt(trial)
    if result.fine is None:
        pytest.skip(result.message)
    assert result.fine, f"{result.marks} of {result.points}: {result.kind} {result.message}"
    assert "\x1b" not in result.message and "\n\n" not in result.message


def test_damaged_notebooks_tried_at_the_same_time_share_one_course(monkeypatch):
    made = []

    class Slow:
        def __init__(self):
            made.append(self)
            time.sleep(0.1)

    def attempt(trial):
        run._Notebooks.shared()
        return run.AttackResult(trial, True)

    shared = staticmethod(functools.cache(Slow))
    monkeypatch.setattr(run._Notebooks, "shared", shared)
    monkeypatch.setattr(run, "judge", lambda: None)
    monkeypatch.setattr(run, "attempt", attempt)
    trials = corpus.trials(["notebook"])[:4]
    assert [r.trial for r in run.attempt_all(trials, jobs=4)] == trials and len(made) == 1


def test_a_slow_gpu_fails_no_control():
    (control,) = corpus.trials(["controls/language_corners"])
    verdict = Verdict(control.exercise, "", [CaseResult("a")], timing={"fairest": 1.3}, marks=2.9, points=3.0)
    assert run._fine(control, verdict)
    verdict.marks = 1.9
    assert not run._fine(control, verdict)


def test_every_family_is_covered():
    attacks = [t for t in TRIALS if t.family != corpus.CONTROLS]
    assert {t.family for t in attacks} == set(corpus.FAMILIES)
    assert len(attacks) >= 60 and len(TRIALS) - len(attacks) >= 80
    assert {t.exercise for t in TRIALS} <= exercises.all_exercises().keys()


@pytest.mark.parametrize(
    "head",
    [
        "# tries: x\n# exercise: 00_start/scale\n# expect: refused",
        "# tries: x\n# stopped by: y\n# exercise: 00_start/scale\n# where: both\n# expect: stopped",
        "# tries: x\n# stopped by: y\n# exercise: 00_start/scale\n# where: both\n# expect: no effect",
        "# tries: x\n# stopped by: y\n# exercise: 00_start/scale\n# where: both\n# expect: accepted",
        "import torch",
        "# tries: x\n# stopped by: y\n# exercise: 00_start/scale\n# where: both\n# expect: no undue points",
        "# tries: x\n# stopped by: y\n# exercise: 00_start/scale\n# where: both\n# expect: refused\n# due: 2",
        "# tries: x\n# stopped by: y\n# exercise: 00_start/scale\n# where: both\n# expect: harmless",
        "# tries: x\n# stopped by: y\n# exercise: 00_start/scale\n# where: both\n# expect: refused\n# beside: honest",
    ],
)
def test_a_wrong_header_is_an_error(tmp_path, head):
    (tmp_path / "replay").mkdir()
    path = tmp_path / "replay" / "x.py"
    path.write_text(head + "\n\nimport os\n")
    with pytest.raises(ValueError, match="x.py"):
        corpus.read(path)


def test_trials_are_chosen_by_name_or_family():
    assert {t.family for t in corpus.trials(["replay"])} == {"replay"}
    assert [t.id for t in corpus.trials(["cpu/docstring"])] == ["cpu/docstring"]
    with pytest.raises(ValueError, match="nonsense"):
        corpus.trials(["nonsense"])


HEAD = "# tries: x\n# stopped by: y\n# exercise: 00_start/scale\n# where: both\n"


def test_trials_may_come_from_another_folder(tmp_path):
    for family, more in (("counts", "# expect: no undue points\n# due: 1.5"), ("denial", "# expect: harmless")):
        (tmp_path / family).mkdir()
        (tmp_path / family / "other.py").write_text(f"{HEAD}{more}\n\nimport os\n")
    one, other = corpus.trials(root=tmp_path)
    assert (one.id, one.due, one.is_alone, other.is_alone) == ("counts/other", 1.5, False, True)


def test_points_that_are_due_may_be_earned_and_no_more(tmp_path):
    (tmp_path / "counts").mkdir()
    (tmp_path / "counts" / "x.py").write_text(f"{HEAD}# expect: no undue points\n# due: 2\n")
    (trial,) = corpus.trials(root=tmp_path)
    assert run._fine(trial, Verdict(trial.exercise, "", [CaseResult("a")], marks=2.0, points=3.0))
    assert not run._fine(trial, Verdict(trial.exercise, "", [CaseResult("a")], marks=2.5, points=3.0))


def test_the_table_counts_what_was_stopped_and_what_was_not_tried():
    one, other = corpus.trials(["replay"])[:2]
    results = [run.AttackResult(one, True, stock=2.0), run.AttackResult(other, None, message="needs a GPU")]
    text = run.table(results, compare=True)
    assert "1 / 1" in text and "needs a GPU" in text
    assert "✗" in run.line(run.AttackResult(one, False, 2.0, 2.0))
