"""Units 08 and 09: plain answers against independent ones, explanations of wrong ones, references by hand."""

import math

import pytest
import torch

from labutils import exercises


def by_bytes(stride, itemsize, first):
    """Sectors by looking at every single byte."""
    begins = [(first + lane * stride) * itemsize for lane in range(32)]
    return len({byte // 32 for b in begins for byte in range(b, b + itemsize)})


def test_sectors():
    task = exercises.get("08_coalescing/sectors_per_request")
    for stride in range(40):
        for itemsize in (1, 2, 4, 8):
            for first in (0, 1, 7):
                assert task.reference(stride, itemsize, first) == by_bytes(stride, itemsize, first)


@pytest.mark.parametrize(
    "yours, sizes, word",
    [
        (4, {"stride": 1, "itemsize": 4, "first": 1}, "Lane 0"),
        (4, {"stride": 2, "itemsize": 4, "first": 0}, "adjacent elements only"),
        (4, {"stride": 1, "itemsize": 8, "first": 0}, "4 bytes"),
        (125, {"stride": 1000, "itemsize": 4, "first": 0}, "at most 32"),
    ],
)
def test_wrong_sectors_are_explained(yours, sizes, word):
    task = exercises.get("08_coalescing/sectors_per_request")
    assert word in task.explain(sizes, yours, task.reference(**sizes))


def test_wavefronts():
    task = exercises.get("09_shared_memory/wavefronts_for_stride")
    for stride in range(200):
        words = {stride * lane for lane in range(32)}
        assert task.reference(stride) == max(sum(w % 32 == bank for w in words) for bank in range(32))


@pytest.mark.parametrize("yours, stride, word", [(16, 2, "in use"), (3, 3, "need not"), (32, 0, "broadcast")])
def test_wrong_wavefronts_are_explained(yours, stride, word):
    task = exercises.get("09_shared_memory/wavefronts_for_stride")
    assert word in task.explain({"stride": stride}, yours, task.reference(stride))


def test_smoothing_keeps_groups_apart():
    x = torch.zeros(600, dtype=torch.float64)
    x[255] = 9.0
    y = exercises.get("09_shared_memory/fix_race").reference(x, 2)
    # the end element replaces its missing neighbor: 9 at the end gives 6 and 3, then 5, 3 and 1
    assert y[253:256].tolist() == pytest.approx([1, 3, 5])
    assert not y[256:].any()


def test_gradient_of_a_parabola():
    x = torch.arange(6, dtype=torch.float64) ** 2
    assert exercises.get("09_shared_memory/fix_bounds").reference(x).tolist() == [1, 4, 8, 12, 16, 9]


@pytest.mark.parametrize("unit", ["08_coalescing", "09_shared_memory"])
def test_counts_come_from_an_aligned_public_case(unit):
    """Hidden cases are smaller than the case that is counted, and that one is aligned."""
    import random

    rng = random.Random(5)
    for task in exercises.all_exercises().values():
        if task.unit != unit or not task.points.bounds:
            continue
        counted = max(task.cases, key=lambda c: task.cost(c.sizes, 4).bytes)
        assert counted is task.cases[-1] and counted.layout == "contiguous"
        assert all(math.prod(a.shape(counted.sizes)) % 32 == 0 for n, a in task.arguments.items() if n != "weights")
        most = task.cost(counted.sizes, 4).bytes
        assert all(task.cost(task.draw(rng), 4).bytes < most for _ in range(300))
