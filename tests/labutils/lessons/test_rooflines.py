"""Unit 05's kernels and claims, with the right ledgers."""

import pytest

from labutils import exercises
from labutils.exercises import roofline as unit
from labutils.lessons import rooflines


def test_without_a_gpu_the_library_has_stored_times_and_yours_none():
    placed = rooflines.library_kernels(unit.softmax, unit.matmul)
    assert placed["GeLU"].seconds == 257e-6
    own = rooflines.own_kernel(lambda x, steps, out: None, steps=(1, 64))
    assert [k.work.intensity for k in own.values()] == [0.25, 16]
    assert all(k.seconds is None for k in own.values())
    assert "transposed copy" not in rooflines.points(placed | own)


def test_verdicts_are_those_of_the_measured_roofs(capsys):
    placed = rooflines.library_kernels(unit.softmax, unit.matmul) | rooflines.own_kernel(None, steps=(1, 1024))
    rooflines.verdicts(placed, unit._verdict)
    found = {line[:17].strip(): line.rsplit(": ", 1)[1] for line in capsys.readouterr().out.splitlines()}
    assert found["GeLU"] == "memory" and found["matmul 4096"] == "compute" and found["matmul 512"] == "neither"
    assert found["transposed copy"] == "neither"
    assert found["yours, 1024 FMAs"].startswith("compute-bound")


def test_other_operations_do_few_flops_in_much_time(capsys):
    matmuls, others = rooflines.bert_layer(unit.softmax, unit.layer_norm, unit.matmul)
    assert sum(w.flops for w in matmuls) == pytest.approx(2 * 4096 * 12 * 1024**2 + 4 * 4096 * 512 * 1024)
    assert 0.002 < sum(others).flops / sum(matmuls + others).flops < 0.01
    rooflines.claims(unit.softmax, unit.layer_norm, unit.matmul)
    assert "1365 = M / 3" in capsys.readouterr().out


def test_the_chain_of_the_exercise_has_the_ledger_that_is_placed():
    task = exercises.get("05_roofline/own_kernel")
    (placed,) = rooflines.own_kernel(None, steps=(16,)).values()
    cost = task.cost({"n": rooflines.N, "steps": 16}, 4)
    assert (cost.bytes, cost.flops) == (placed.work.bytes, placed.work.flops)
