"""Unit 04: each dishonest benchmark is told its own fault, on public and on drawn machines; honest ones pass."""

import random
import statistics

import pytest

from grader.course.mutants import ACCEPTED, mutants
from grader.course.solutions import load_text
from labutils import exercises
from labutils.check.evaluate import evaluate

MUTANTS = {m.name: m for m in mutants("04_benchmarking/honest")}
HONEST = exercises.get("04_benchmarking/honest")

TOLD = {
    "no_wait": "clock was read before",
    "hot": "still in the L2",
    "mean": "Take the median",
    "minimum": "fastest sample",
    "cold_clocks": "clocks had not risen",
    "compile_in_mean": "which compiles",
    "one_sample": "which compiles",
    "launch_inside": "You wait for the flush before the first event",
    "microseconds": "Return seconds",
    "no_return": "one number",
}


@pytest.fixture
def benchmark_of(tmp_path):
    """The function of a mutant, by name."""
    return lambda name: load_text(MUTANTS[name].text, tmp_path).honest


@pytest.mark.parametrize("name", TOLD)
def test_each_fault_is_told(name, benchmark_of):
    verdict = evaluate(HONEST, benchmark_of(name))
    assert TOLD[name] in verdict.headline.advice, verdict.text()


def sampling(*steps):
    """A benchmark whose samples do these steps; the time between the two events of each counts."""

    def honest(machine, call):
        do = {"call": call, "flush": machine.flush, "synchronize": machine.synchronize, "event": machine.event}
        call()
        begin = machine.now()
        while machine.now() - begin < 0.1:
            call()
            machine.synchronize()
        samples = [[mark for step in steps if (mark := do[step]()) is not None] for _ in range(200)]
        machine.synchronize()
        return statistics.median(machine.seconds(start, stop) for start, stop in samples)

    return honest


@pytest.mark.parametrize(
    "steps, told",
    [
        (("flush", "event", "call", "event"), None),
        (("event", "flush", "call", "event"), "The flush lies between the two events"),
        (("flush", "event", "call", "call", "event"), "Several calls lie between two events"),
        (("flush", "event", "call", "synchronize", "event"), "between the call and the second event"),
        (("flush", "synchronize", "event", "call", "event"), "You wait for the flush before the first event"),
    ],
)
def test_what_stands_between_two_events_is_told(steps, told):
    headline = evaluate(HONEST, sampling(*steps)).headline
    assert headline is None if told is None else told in headline.advice


def test_the_settings_are_no_measurement():
    verdict = evaluate(HONEST, lambda machine, call: call() or machine.cold_s)
    assert "not a measurement" in verdict.headline.symptom


def test_honest_benchmarks_pass_on_every_machine_that_may_be_drawn(benchmark_of):
    good = [benchmark_of(name) for name, mutant in MUTANTS.items() if mutant.expect == ACCEPTED]
    rng = random.Random(5)
    for _ in range(40):
        sizes = HONEST.draw(rng)
        for fn in good:
            arguments = HONEST.make(**sizes)
            assert HONEST.examine(sizes, arguments, fn(**arguments)) is None, (fn, sizes)


def test_dishonest_ones_fail_on_every_machine_that_may_be_drawn(benchmark_of):
    bad = {n: benchmark_of(n) for n in TOLD}
    rng = random.Random(6)
    for _ in range(25):
        sizes = HONEST.draw(rng)
        # a long kernel raises the clocks by itself, and hides what launching it takes
        short = sizes["cold_us"] < 40 * sizes["launch_us"] and sizes["cold_us"] < 200
        for name, fn in bad.items():
            if name in ("cold_clocks", "launch_inside") and not short:
                continue
            arguments = HONEST.make(**sizes)
            assert HONEST.examine(sizes, arguments, fn(**arguments)), (name, sizes)
