"""Unit 04: each dishonest benchmark is told its own fault, on public and on drawn machines; honest ones pass."""

import random
from pathlib import Path

import pytest

from grader.commands.audit import expectation
from grader.course.solutions import load
from labutils import exercises
from labutils.check.evaluate import evaluate

FOLDER = Path(__file__).parents[2] / "grader/mutants/04_benchmarking/honest"
HONEST = exercises.get("04_benchmarking/honest")

TOLD = {
    "no_wait": "clock was read before",
    "hot": "still in the L2",
    "mean": "Take the median",
    "minimum": "luckiest",
    "cold_clocks": "clocks had not risen",
    "compile_in_mean": "which compiles",
    "one_sample": "which compiles",
    "launch_inside": "launch is in that time",
    "microseconds": "Return seconds",
    "no_return": "one number",
}


@pytest.mark.parametrize("name", TOLD)
def test_each_fault_is_told(name):
    verdict = evaluate(HONEST, load(str(FOLDER / f"{name}.py")).honest)
    assert TOLD[name] in verdict.headline.advice, verdict.text()


def test_the_settings_are_no_measurement():
    verdict = evaluate(HONEST, lambda machine, call: call() or machine.cold_s)
    assert "not a measurement" in verdict.headline.symptom


def test_honest_benchmarks_pass_on_every_machine_that_may_be_drawn():
    good = [load(str(p)).honest for p in FOLDER.glob("*.py") if expectation(p)[0] == "accepted"]
    rng = random.Random(5)
    for _ in range(40):
        sizes = HONEST.draw(rng)
        for fn in good:
            arguments = HONEST.make(**sizes)
            assert HONEST.examine(sizes, arguments, fn(**arguments)) is None, (fn, sizes)


def test_dishonest_ones_fail_on_every_machine_that_may_be_drawn():
    bad = {n: load(str(FOLDER / f"{n}.py")).honest for n in TOLD}
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
