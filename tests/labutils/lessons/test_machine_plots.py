"""Unit 04's picture of a benchmark's calls."""

import pytest

from labutils.lessons import machine_plots


def test_every_call_is_drawn():
    pytest.importorskip("matplotlib")

    def benchmark(machine, call):
        for _ in range(5):
            call()
        machine.synchronize()
        return 1e-4

    fig = machine_plots.calls(benchmark)
    hot, cold, _ = fig.axes[0].lines
    assert len(hot.get_xdata()) + len(cold.get_xdata()) == 5
    assert "100.0 µs reported" in fig.alt
