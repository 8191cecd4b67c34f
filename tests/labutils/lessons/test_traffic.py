"""Ledgers and bandwidths as pictures, and what the compiler makes of a launch."""

import pytest
import torch

from labutils.lessons import compiled, traffic
from labutils.lessons import traffic_plots as pictures

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")


def test_a_ledger_names_its_totals():
    fig = pictures.ledger({"apart": {"a": (10, 5), "b": (5, 5)}, "fused": {"both": (5, 5)}}, {"fused": 11})
    assert "apart moves 25 elements, fused moves 10 elements; predicted speedup 2.50 ×" in fig.alt
    assert any("counted: 11" in text.get_text() for axis in fig.axes for text in axis.texts)


def test_a_bandwidth_names_its_ranges():
    fig = pictures.bandwidth([256, 512], {"mine": [1000.0, 2000.0], "copy": [4000.0, 4000.0]}, "somewhere")
    assert "mine 1,000 to 2,000 GB/s" in fig.alt


def test_nothing_is_drawn_or_counted_while_grading(monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert traffic.ledger({"a": {"b": (1, 1)}}) is None
    assert traffic.elements(lambda x: None, torch.zeros(1)) is None
    assert traffic.sweep([1], {}, 1) is None


@triton.jit
def scale(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N, other=0.0)
    tl.store(out_ptr + offs, x / tl.sum(x), mask=offs < N)


def test_resources_of_a_launch_without_a_gpu():
    x = torch.empty(16)
    small, large = compiled.resources(
        [(scale, (x, x, 99), dict(BLOCK=1024, num_warps=4)), (scale, (x, x, 99), dict(BLOCK=32768, num_warps=4))],
        (9, 0),
    )
    assert small.registers < 64 and small.stack == 0
    assert large.registers > 128 and large.stack > 0
