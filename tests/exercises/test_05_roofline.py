"""Unit 05: ledgers against counting by hand, and verdicts that a little noise does not turn."""

import random

import pytest

from grader.course.solutions import load_text, solution_text
from labutils import exercises
from labutils.backends.interpreter import Interpreter
from labutils.check.evaluate import evaluate
from labutils.exercises import roofline as unit
from labutils.gpu.roofline import Ledger, Roof


def test_ledgers_by_hand():
    assert (unit.softmax(2, 3, 4).bytes, unit.softmax(2, 3, 4).flops) == (48, 30)
    assert unit.layer_norm(2, 3, 4).read == 4 * (6 + 3 + 3)
    assert (unit.matmul(2, 3, 5, 2).bytes, unit.matmul(2, 3, 5, 2).flops) == (2 * (10 + 15 + 6), 60)
    assert unit.rms_norm_residual(2, 3, 4).bytes == 4 * (6 + 6 + 3 + 6 + 6)


def test_the_crossover_is_where_both_times_are_equal():
    side = exercises.get("05_roofline/crossover").reference(2, 989e12, 4.8e12)
    roof = Roof("toy", 989e12, 4.8e12)
    least = roof.predict(unit.matmul(side, side, side, 2))
    assert least.memory_s == pytest.approx(least.compute_s) and side == pytest.approx(618, abs=1)


def test_no_verdict_is_near_the_line():
    task = exercises.get("05_roofline/verdict")
    rng = random.Random(1)
    for sizes in [c.sizes for c in task.cases] + [task.draw(rng) for _ in range(300)]:
        a = task.make(**sizes)
        share = a["roof"].predict(a["work"]).seconds / a["seconds"]
        assert abs(share - 0.5) > 0.01, sizes
        assert task.examine(sizes, a, unit._verdict(**a)) is None
        assert task.examine(sizes, a, "both")


def test_what_is_no_ledger_is_told():
    said, advice = unit.examine_ledger(Ledger({"x": 1.0}), 12, {})
    assert "int was returned" in said and "Ledger(" in advice


def test_every_ledger_has_cases_and_is_drawn():
    task = exercises.get("05_roofline/ledgers")
    rng = random.Random(2)
    drawn = [task.draw(rng) for _ in range(60)]
    for sizes in ([c.sizes for c in task.cases], drawn):
        assert {unit.NAMES[s["kernel"]] for s in sizes} == set(unit.KERNELS)
    for sizes in drawn:
        arguments = task.make(**sizes)
        assert task.examine(sizes, arguments, unit.reference_ledger(**arguments)) is None
        message, advice = task.examine(sizes, arguments, Ledger())
        assert message.startswith(arguments["kernel"]) and advice


def test_a_store_in_the_loop_costs_the_point_for_bytes(tmp_path):
    task = exercises.get("05_roofline/own_kernel")
    stored = "    tl.store(out_ptr + offs, v, mask=mask)\n"
    source = solution_text("05_roofline")
    assert source.count(stored) == 1
    for text, points in ((source, 2.0), (source.replace(stored, "    " + stored), 1.0)):
        verdict = evaluate(task, load_text(text, tmp_path).fma_chain, backend=Interpreter(targets=()), time_limit=120)
        assert verdict.passed and task.points.award(verdict) == points, verdict.text()
