"""Ledgers and roofs: sums, fusion, and figures worked out by hand."""

import math

import pytest

from labutils.gpu import device
from labutils.gpu.roofline import Ledger, Roof, fuse, in_flight, nbytes, units

N = 1000.0
MUL = Ledger({"x": N, "s": N}, {"t": N}, flops=250, name="mul")
ADD = Ledger({"t": N, "b": N}, {"y": N}, flops=250, name="add")


def test_a_chain_moves_the_sum_of_its_parts():
    chain = MUL + ADD
    assert (chain.read, chain.written, chain.flops, chain.name) == (4 * N, 2 * N, 500, "mul + add")
    assert sum([MUL, ADD]).bytes == chain.bytes
    assert (3 * MUL).bytes == 3 * MUL.bytes


def test_fused_drops_what_lies_between():
    one = fuse(MUL, ADD)
    assert one.reads == {"x": N, "s": N, "b": N} and one.writes == {"y": N}
    assert one.flops == 500
    assert fuse(MUL, ADD, keep=["t"]).writes == {"t": N, "y": N}


def test_fused_reads_a_shared_array_once():
    square = Ledger({"x": N}, {"q": N}, 250)
    scale = Ledger({"x": N, "q": N}, {"y": N}, 250)
    assert fuse(square, scale).bytes == 2 * N


def test_keeping_what_nobody_writes_is_a_mistake():
    with pytest.raises(ValueError, match="no part writes z"):
        fuse(MUL, keep=["z"])


def test_a_roof_bends_at_the_ridge():
    roof = Roof("toy", flops=100.0, bandwidth=10.0)
    assert roof.ridge == 10
    assert [roof.attainable(i) for i in (1, 10, 50)] == [10, 100, 100]
    assert roof.bound(9.9) == "memory" and roof.bound(10) == "compute" and roof.bound(MUL) == "memory"


def test_predictions_take_the_longer_of_both():
    roof = Roof("toy", flops=100.0, bandwidth=10.0)
    work = Ledger({"x": 30.0}, {}, flops=200)
    assert roof.predict(work).seconds == 3 and roof.predict(work).bound == "memory"
    assert roof.predict(work, tail=0.5).seconds == 4 and roof.predict(work, tail=0.5).bound == "compute"
    assert roof.predict(work, overhead_s=1).seconds == 4


def test_the_ridges_that_the_course_speaks_of():
    a100 = device.find("A100 40GB")
    assert Roof.of(a100, "fp32").ridge == pytest.approx(12.5, abs=0.1)
    assert Roof.of(a100, "fp16").ridge == pytest.approx(200.6, abs=0.1)
    with pytest.raises(ValueError, match="no fp8 peak"):
        Roof.of(a100, "fp8")


def test_a_square_matmul_in_fp16_has_the_intensity_of_a_third_of_its_side():
    m = 4096
    matrix = nbytes(m, m, dtype="float16")
    assert Ledger({"a": matrix, "b": matrix}, {"c": matrix}, 2 * m**3).intensity == pytest.approx(m / 3)


def test_nothing_moved_is_infinitely_intense():
    assert Ledger(flops=1).intensity == math.inf
    with pytest.raises(ValueError, match="negative"):
        Ledger({"x": -1.0})


def test_littles_law():
    assert in_flight(4.8e12, 600e-9) == pytest.approx(2.88e6)


@pytest.mark.parametrize(
    "value,unit,said",
    [(3.2e9, "B", "3.2 GB"), (999.6, "B", "1 kB"), (0, "FLOP", "0 FLOP"), (2.5e-5, "s", "25 µs"), (4e-9, "s", "4 ns")],
)
def test_units(value, unit, said):
    assert units(value, unit) == said
