"""Unit 02: closed forms against what the kernels compute step by step."""

import pytest
import torch

from labutils import exercises
from labutils.exercises.execution_model import STAGES
from labutils.spec.inputs import make_run


def chains(x):
    """The clippers one after the other, in the type of x."""
    left, right = x.clone(), x.clone()
    for _ in range(STAGES):
        left = left / (1 + left.abs())
        right = right / (1 + right * right).sqrt()
    return torch.where(torch.arange(x.numel()) % 2 == 0, left, right)


@pytest.mark.parametrize("case", exercises.get("02_execution_model/diverge").cases, ids=lambda c: c.name)
def test_clippers_in_fp32_stay_within_the_tolerance(case):
    exercise = exercises.get("02_execution_model/diverge")
    x = make_run(exercise, case, 3).inputs()["x"]
    expected = exercise.reference(x)
    torch.testing.assert_close(chains(x), expected, rtol=1e-12, atol=0)
    limit = exercise.contract.tolerance(expected, exercise.magnitude(x), case.sizes, "float32")
    assert ((chains(x.float()).double() - expected).abs() <= limit).all()


def test_160_blocks_on_148_sms_are_two_waves_of_which_54_percent_is_used():
    grid = {"blocks": 160, "sms": 148, "blocks_per_sm": 1}
    assert exercises.get("02_execution_model/waves").reference(**grid) == 2
    assert exercises.get("02_execution_model/tail_efficiency").reference(**grid) == pytest.approx(0.5405, abs=1e-4)


@pytest.mark.parametrize("n, threads", [(20, 8), (5, 256), (1024, 1024), (1, 1)])
def test_all_threads_together_pass_once_over_every_element(n, threads):
    passes = exercises.get("07_elementwise_cuda/passes").reference
    assert sum(passes(n, threads, t) for t in range(threads)) == n
