"""The emulator's memory counters are the hardware's: read by Nsight Compute for every CUDA C++ solution."""

import pytest

from bench import counters
from labutils.gpu import device


@pytest.mark.gpu
@pytest.mark.timeout(900)
def test_totals_equal_nsight_computes():
    if not device.has_gpu() or counters.ncu() is None:
        pytest.skip("needs a CUDA GPU and Nsight Compute (ncu)")
    rows = counters.compare(counters.cuda_exercises())
    same = [r for r in rows if r["emulator"] == r["hardware"]]
    assert len(same) >= 0.97 * len(rows), [r for r in rows if r not in same]
