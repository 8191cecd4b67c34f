"""Cooperative groups: partitions of every kind, operators of any kind, tiles of several warps, copies."""

import pytest
import torch

from labutils.backends import simt
from tests.labutils.backends.simt.conftest import HERE, Launcher, aligned


@pytest.fixture(scope="module")
def groups():
    module = simt.compile((HERE / "groups.cu").read_text())
    return lambda name: Launcher(module.kernels[name])


def launched(kernel, grid, block, *arguments):
    result = kernel[grid, block](*arguments)
    assert result.ok, [str(f) for f in result.findings]


def test_partitions(groups):
    out = aligned(torch.zeros(64 * 12 + 1, dtype=torch.int32))
    launched(groups("partitions"), 1, 64, out)
    assert out[-1] == 16  # one of each four
    for t, row in enumerate(out[:-1].view(64, 12).tolist()):
        lane, first = t % 32, t // 32 * 32
        same = [first + i for i in range(32) if i % 3 == lane % 3]
        eight = range(t // 8 * 8, t // 8 * 8 + 8)
        assert row[:7] == [
            t // 32 * 100 + lane, lane // 4 * 100 + 8, same.index(t) * 100 + len(same), lane % 3 * 100 + 3, sum(same),
            8 if lane < 8 else 124, t % 8 * 100 + 8,
        ]  # fmt: skip
        assert t % 8 or row[7] == sum(eight)
        assert t or row[8] == sum(range(64))
        odd = lane // 2 * 100 + min(t + 2, first + 31)
        assert row[9:] == [first + 1000, odd if t % 2 else -1, 5 if t % 2 == 0 else 10]


def test_operators_are_called_with_what_they_hold(groups):
    out = aligned(torch.zeros(32, 6, dtype=torch.int32))
    launched(groups("operators"), 1, 32, out, 7)
    sums = [sum(range(t + 1)) + 7 * t for t in range(32)]
    for t, row in enumerate(out.tolist()):
        assert row[:5] == [sums[31], sums[t], sums[t - 1] if t else 0, sum(range(t)), 31]
        assert row[5] > 0


def test_tiles_of_several_warps(groups):
    out = aligned(torch.zeros(256))
    launched(groups("several_warps"), 1, 256, out)
    t = torch.arange(256)
    assert torch.equal(out, (t // 128 * 128 + 127 - t % 128 + 128).float())


def test_copies_of_as_many_elements_as_both_sides_have(groups):
    x, out = aligned(torch.arange(200.0)), aligned(torch.zeros(128))
    launched(groups("copies"), 1, 128, x, out)
    assert torch.equal(out, torch.arange(128.0).view(4, 32).flip(1).flatten())
