"""Errors of dot products: an fp32 accumulator stays within the course's tolerance, one in fp16 does not."""

import pytest
import torch

from labutils.exercises.tolerances import tolerance
from labutils.lessons import rounding


@pytest.mark.parametrize("K", [16, 1024])
def test_the_tolerance_tells_accumulators_apart(K):
    worst = {}
    for dtype in (torch.float32, torch.float16):
        error, expected, magnitude = rounding.errors(K, dtype)
        limits = [
            tolerance(K, m, y, "fp32", "fp32") for m, y in zip(magnitude.tolist(), expected.tolist(), strict=True)
        ]
        worst[dtype] = float((error / torch.tensor(limits)).max())
    assert worst[torch.float32] <= 1 < worst[torch.float16]


def test_a_tolerance_that_is_not_written_yet_is_named(capsys):
    def unwritten(*arguments):
        raise NotImplementedError

    rounding.dot_products(unwritten)
    assert "`tolerance` does not run yet: NotImplementedError" in capsys.readouterr().out
