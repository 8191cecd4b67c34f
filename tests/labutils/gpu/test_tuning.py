"""The simulated kernel: its best configuration fits, and one sweep from a roomy start finds it."""

import math

import pytest

from labutils.gpu.tuning import SPACE, DoesNotFit, SimulatedKernel, fits


def sweep(kernel, start):
    """One name after another, all values of each; a configuration that does not fit takes infinitely long."""

    def seconds(config):
        try:
            return kernel.seconds(**config)
        except DoesNotFit:
            return math.inf

    best = start
    for name, values in SPACE.items():
        best = min(({**best, name: value} for value in values), key=seconds)
    return best


@pytest.mark.parametrize("seed", range(100))
def test_a_sweep_from_where_there_is_room_finds_the_best(seed):
    kernel = SimulatedKernel(seed)
    found = sweep(kernel, {name: values[0] for name, values in SPACE.items()} | {"num_warps": 8})
    assert kernel.truth(**found) == pytest.approx(kernel.best())
    assert len(kernel.tried) == sum(map(len, SPACE.values())) <= 20


def test_a_start_without_room_misses_some():
    small = {name: values[0] for name, values in SPACE.items()}
    missed = [s for s in range(100) if (k := SimulatedKernel(s)).truth(**sweep(k, small)) > 1.05 * k.best()]
    assert missed


def test_large_tiles_do_not_fit():
    assert not fits(BLOCK_M=256, BLOCK_N=256, BLOCK_K=32, num_warps=8, num_stages=2)
    with pytest.raises(DoesNotFit):
        SimulatedKernel(1).seconds(BLOCK_M=256, BLOCK_N=128, BLOCK_K=128, num_warps=8, num_stages=5)
