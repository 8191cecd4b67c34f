"""Predictions beside measurements: which kernels are compared, what a row says, and that a file can be read again."""

import json
import sys
from dataclasses import asdict, replace

import pytest

from bench import predictions
from bench.predictions import Row
from labutils import exercises
from labutils.gpu import device
from labutils.gpu.machine import SimulatedGPU
from labutils.study import prediction, reference
from labutils.timing.stopwatch import Stopwatch

ADD, MATMUL = "06_elementwise_triton/vector_add", "14_matmul_triton/matmul_relu"
H200 = device.find("H200")


def rows(name: str = ADD) -> list[Row]:
    task, found = exercises.get(name), reference.of(name)
    return [predictions.predicted(task, name, found, H200, sizes) for sizes in predictions.sizes_of(task, found)]


def test_only_memory_bound_exercises_are_compared():
    found = {task.id for task in predictions.memory_bound([], H200)}
    assert ADD in found and MATMUL not in found and len(found) > 50
    assert {name.partition(":")[0] for name in predictions.SLOWER} <= found
    assert [task.id for task in predictions.memory_bound([ADD], H200)] == [ADD]


def test_every_variant_is_a_mutant_that_the_check_accepts():
    for name in predictions.SLOWER:
        exercise_id, _, mutant = name.partition(":")
        (found,) = (m for m in predictions.mutants(exercise_id) if m.name == mutant)
        assert found.expect == "accepted", name


def test_a_row_has_two_sizes_and_a_ratio():
    large, small = rows()
    assert large.sizes["n"] == 4 * small.sizes["n"]
    assert 3 < large.predicted / small.predicted < 4
    measured = replace(large, seconds=large.predicted / 1.1)
    assert measured.ratio == pytest.approx(1.1)
    assert "| 1.10 | memory |" in str(measured)
    assert predictions.summary([measured, replace(measured, seconds=1.0)]).startswith("1 of 2")
    assert predictions.summary([replace(measured, kernel=f"{ADD}:m")]).startswith("0 of 0")


def test_without_a_gpu_predictions_are_printed(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["predictions", ADD, "--without-gpu", "H200", "--no-mutants"])
    assert predictions.main() == 0
    assert capsys.readouterr().out.count(ADD) == 2


def test_a_file_is_predicted_again(tmp_path, monkeypatch, capsys):
    kept = [asdict(replace(row, seconds=2 * row.predicted, predicted=1.0)) for row in rows()]
    (tmp_path / "rows.json").write_text(json.dumps({"rows": kept}))
    monkeypatch.setattr(sys, "argv", ["predictions", "--again", str(tmp_path / "rows.json")])
    assert predictions.main() == 0
    said = capsys.readouterr().out
    assert said.count("| 0.50 |") == 2 and "0 of 2" in said


def test_a_kernel_is_timed_with_the_courses_stopwatch(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(predictions, "draw", lambda task, case, seed: type("Run", (), {"arguments": ()}))
    monkeypatch.setattr(predictions, "wrong", lambda run: None)
    gpu = SimulatedGPU(cold_s=400e-6, hot_s=300e-6)
    watches = {clean: Stopwatch(gpu, max_seconds=0.1, clean=clean) for clean in (False, True)}
    (row, _) = rows()
    timed = predictions.measure(exercises.get(ADD), gpu.call, row, watches)
    assert timed.seconds == pytest.approx(400e-6, rel=0.05)
    assert timed.ratio == pytest.approx(row.predicted / 400e-6, rel=0.05)
    monkeypatch.setattr(predictions, "wrong", lambda run: "3 of 4 elements of out")
    with pytest.raises(ValueError, match="3 of 4"):
        predictions.measure(exercises.get(ADD), gpu.call, row, watches)


def test_the_parts_have_names():
    assert {key for row in rows() for key in row.parts} <= set(prediction.NAMES)


def test_a_table_has_a_line_for_each_kernel_and_counts_the_halves():
    found = [replace(row, seconds=row.predicted / 1.1) for row in rows()]
    bounds = [replace(row, kernel="10_scan/histogram", least="atomic operations in a loop") for row in found]
    shown = predictions.table(found + bounds)
    assert shown.count("+10%") == 4 and shown.count("≥ +10%") == 2
    assert "2 of 2 (chosen on), 0 of 0 (not seen)" in shown


def test_hunts_are_left_out():
    assert not [task for task in predictions.memory_bound([], H200) if task.unit.endswith("_hunt")]
