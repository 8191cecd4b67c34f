"""The benchmark of unit 23: with how many ranks it runs, and what a line says."""

import pytest

from bench import many_gpus
from labutils.lessons import distributed


@pytest.mark.parametrize("most, counts", [(2, [2]), (4, [2, 4]), (6, [2, 4]), (8, [2, 4, 8])])
def test_powers_of_two_up_to_what_is_there(monkeypatch, most, counts):
    monkeypatch.setattr(distributed, "backend_and_world", lambda: ("nccl", most))
    assert many_gpus.worlds() == ("nccl", counts)


def test_bus_bandwidth_counts_what_each_rank_sends():
    row = {"bytes": 10**9, "predicted_us": 4000.0, "ring_us": 5000.0, "library_us": 3500.0, "right": False}
    line = many_gpus._line(row, 8)
    assert "predicted / measured 0.80" in line and "bus 350 and 500 GB/s" in line and line.endswith("WRONG")
