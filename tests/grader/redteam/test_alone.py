"""A trial in a process of its own: what it costs others is noticed."""

import re

import pytest

from grader.redteam import alone, corpus, run

HEAD = """\
# tries: x
# stopped by: y
# exercise: 00_start/number_of_programs
# where: both
# expect: harmless

"""
RIGHT = "def number_of_programs(n, block):\n    return -(-n // block)\n"


@pytest.fixture
def trial(tmp_path):
    def write(text: str, family: str = "denial", head: str = HEAD):
        (tmp_path / family).mkdir(exist_ok=True)
        path = tmp_path / family / "x.py"
        path.write_text(head + text)
        return corpus.read(path)

    return write


def test_whoever_lets_nobody_else_run_is_noticed(monkeypatch):
    monkeypatch.setattr(alone, "MOST_HELD", 0.2)
    with alone.Watch() as watch:
        re.match(r"(a+)+$", "a" * 25 + "b")  # about a second in which no other thread runs
    assert "nobody else could run" in watch.harm()


def test_work_of_other_threads_holds_nobody_up(monkeypatch):
    monkeypatch.setattr(alone, "MOST_HELD", 0.2)
    with alone.Watch() as watch:
        sum(k * k for k in range(3_000_000))
    assert watch.harm() == ""


def test_cpu_time_and_growth_are_limited(monkeypatch):
    peaks = iter([0, alone.MOST_GROWTH + 1, 0, 0])
    monkeypatch.setattr(alone.Watch, "_peak", staticmethod(lambda: next(peaks)))
    assert "grew by 1.0 GB" in alone.Watch().harm()
    monkeypatch.setattr(alone, "MOST_CPU", -1.0)
    assert "CPU time" in alone.Watch().harm()


def test_a_harmless_submission_earns_its_marks(trial):
    assert alone.report(trial(RIGHT)) == {"harm": "", "marks": 1.0, "points": 1.0, "kind": "", "message": ""}


def test_an_exception_in_the_judge_is_harm(trial, monkeypatch):
    class Broken:
        def prepare(self, ids):
            pass

        def judge(self, *_):
            raise RecursionError("too deep")

    monkeypatch.setattr(run, "judge", Broken)
    assert alone.report(trial(RIGHT)) == {"harm": "the judge stopped: RecursionError: too deep"}


def test_what_never_ends_is_ended(trial, monkeypatch):
    monkeypatch.setattr(run, "ALONE_LIMIT", 0.5)
    result = run.attempt(trial(RIGHT))
    assert result.fine is False and "no end" in result.message


def test_a_classmate_keeps_the_marks_and_a_copy_earns_none(trial):
    plant = "def plant(folder):\n    (folder / 'mallory.ipynb').write_text('{}')\n"
    head = HEAD.replace("harmless", "refused\n# submits: folder")
    assert alone.report(trial(plant, "neighbors", head))["harm"] == ""
    gone = "def plant(folder):\n    (folder / 'alice.ipynb').unlink()\n    (folder / 'bob.ipynb').write_text('{}')\n"
    assert "alice's submission is gone" in alone.report(trial(gone, "neighbors", head))["harm"]
