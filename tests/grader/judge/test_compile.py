"""Each kernel has CPU time of its own to be compiled in."""

import os
import signal

import pytest

from grader.judge.inside import compile as compiling
from labutils.backends import offline


def _endless():
    while True:
        pass


def test_what_is_done_in_time_comes_back():
    assert compiling.within(5, lambda: {"targets": {"80": {"shared": 0}}}) == {"targets": {"80": {"shared": 0}}}


def test_what_takes_longer_is_ended():
    assert compiling.within(1, _endless) == compiling.TOO_LONG


@pytest.mark.parametrize(
    ("work", "ended"),
    [(lambda: os.kill(os.getpid(), signal.SIGUSR1), f"it died of signal {signal.SIGUSR1}"), (lambda: 1 / 0, "it died")],
)
def test_a_compiler_that_dies_is_told(work, ended, capfd):
    assert compiling.within(5, work) == ended


def test_one_kernel_that_takes_too_long_shortens_the_time_of_the_next(monkeypatch):
    told, given = [], []

    class Compiler:
        @staticmethod
        def compile_all(job):
            yield {"kernel": job["specs"][0]["kernel"], "targets": {"80": {}}}

    def within(seconds, work):
        given.append(seconds)
        return compiling.TOO_LONG if len(given) == 2 else work()

    specs = [{"kernel": name} for name in "abcd"]
    monkeypatch.setattr(compiling, "_compiler", Compiler, raising=False)
    monkeypatch.setattr(compiling, "within", within)
    compiling.compile_each({"specs": specs, "targets": [80]}, told.append)
    assert given == [60, 60, 10, 10]
    assert [(t["spec"], t["kernel"], "error" in t) for t in told] == [
        (0, "a", False), (1, "b", True), (2, "c", False), (3, "d", False)
    ]  # fmt: skip
    problem = offline.problem_of(told[1], "")
    assert problem.kind == "does-not-compile" and "it took more than 60 s" in problem.message
