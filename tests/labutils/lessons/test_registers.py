"""Unit 03's pictures, and the kernel whose registers it bounds."""

import pytest

from labutils import exercises
from labutils.cuda import nvrtc
from labutils.lessons import hardware, registers


def test_blocks_of_1024_threads_fall_to_half():
    pytest.importorskip("matplotlib")
    fig = registers.staircase(exercises.get("03_occupancy/calculator").reference)
    line = next(line for line in fig.axes[0].lines if line.get_label() == "1024 threads")
    assert set(line.get_ydata()) == {100, 50}


def test_the_copy_has_a_line_per_number_of_loads():
    pytest.importorskip("matplotlib")
    fig = registers.throttled_copy(hardware.stored())
    assert [line.get_label() for line in fig.axes[0].lines] == [f"{k} loads per thread" for k in (1, 2, 4)]


@pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC (pip install nvidia-cuda-nvrtc)")
def test_a_tighter_bound_spills():
    free, tight = registers.compiled(""), registers.compiled("__maxnreg__(64)")
    assert tight.registers <= 64 < free.registers
    assert tight.stack > free.stack
