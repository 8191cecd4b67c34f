"""Predictions beside measurements: the error is that of the nearest end of what was predicted."""

import json
import sys

import pytest

from bench import predictions
from bench.predictions import Row, rows
from labutils.study.prediction import Prediction


@pytest.mark.parametrize(
    "measured, error",
    [(2e-3, 0.0), (3e-3, 0.0), (4e-3, 3 / 4 - 1), (1e-3, 2.0 - 1)],
    ids=["least", "most", "slow", "fast"],
)
def test_the_error_is_the_distance_to_the_span(measured, error):
    assert Row("e", Prediction(2e-3, 3e-3, "memory"), measured).error == pytest.approx(error)


def figure(exercise: str, us: float) -> dict:
    return {"exercise": exercise, "gpu": "NVIDIA H200", "rows": {"yours": {"us": us}}}


def test_only_memory_bound_exercises_are_compared(tmp_path, monkeypatch, capsys):
    measured = [
        figure("06_elementwise_triton/vector_add", 400.0),
        figure("14_matmul_triton/matmul_relu", 1000.0),
        {"exercise": "06_elementwise_triton/gelu", "gpu": "NVIDIA H200", "rows": None},
    ]
    (row,) = rows(measured)
    assert row.exercise == "06_elementwise_triton/vector_add"
    assert row.error == pytest.approx(12 * 2**27 / 4282e9 / 400e-6 - 1, rel=1e-3)
    (tmp_path / "m.json").write_text(json.dumps({"figures": measured}))
    monkeypatch.setattr(sys, "argv", ["predictions", str(tmp_path / "m.json")])
    assert predictions.main() == 0
    assert "1 of 1 within 15%" in capsys.readouterr().out
