"""The training of unit 24: PyTorch's own operations pass, and a wrong gradient does not."""

import dataclasses

import pytest
import torch

from labutils.lessons import training

STEPS = 4


class WithoutMean(torch.autograd.Function):
    """RMSNorm whose gradient leaves out the second term of dx."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return training.PYTORCH.norm(x, w)

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        r = torch.rsqrt((x * x).mean(-1, keepdim=True) + training.EPS)
        return dy * w * r, (dy * x * r).sum(0)


def passed(do):
    return [difference <= limit for _, difference, limit in training.differences(do, training.Shape(), STEPS)]


def test_pytorch_in_fp32_is_within_rounding():
    assert all(passed(training.PYTORCH))


def test_the_model_learns():
    losses = training.losses(training.PYTORCH, training.Shape(), 50)
    assert losses[-1] < 0.25 * losses[0]


def test_a_wrong_gradient_changes_the_loss_of_the_next_step():
    do = dataclasses.replace(training.PYTORCH, norm=WithoutMean.apply)
    assert passed(do) == [True, False, False, False]


def test_a_forward_pass_in_bf16_is_more_than_rounding():
    do = dataclasses.replace(training.PYTORCH, swiglu=lambda x: training.PYTORCH.swiglu(x.bfloat16()).to(x.dtype))
    assert not passed(do)[0]


def test_errors_name_the_gradient_that_is_wrong():
    do = dataclasses.replace(training.PYTORCH, norm=WithoutMean.apply)
    wrong = [name for name, error in training.errors(do).items() if error > 1e-5]
    assert wrong == ["norm, gradient of x"]


def test_the_comparison_says_which_step(capsys, monkeypatch):
    monkeypatch.setattr(training.device, "has_gpu", lambda: False)
    training.compare(WithoutMean.apply, training.PYTORCH.rope, training.PYTORCH.swiglu, STEPS)
    assert "The loss of step 1 differs" in capsys.readouterr().out
    training.compare(training.PYTORCH.norm, training.PYTORCH.rope, training.PYTORCH.swiglu, STEPS)
    assert f"All {STEPS} losses" in capsys.readouterr().out


@pytest.mark.gpu
def test_pytorch_on_a_gpu_is_within_rounding():
    found = training.differences(training.PYTORCH, training.LARGE, 3, "cuda")
    assert all(difference <= limit for _, difference, limit in found)
