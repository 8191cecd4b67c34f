"""Unit 24, kernels: the references beside PyTorch's own functions and its autograd, and what the mistakes compute."""

import pytest
import torch

from labutils import exercises
from labutils.exercises import block_kernels as rope
from labutils.exercises import block_kernels_norm as norm
from labutils.exercises import block_kernels_swiglu as swiglu
from labutils.spec.exercise import named
from labutils.spec.inputs import make_run

UNIT = "24_block_kernels"


def inputs(name: str, **sizes):
    exercise = exercises.get(f"{UNIT}/{name}")
    case = next(c for c in exercise.cases if sizes.items() <= dict(c.sizes).items())
    return exercise, make_run(exercise, case, 7).inputs()


def normal(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64, requires_grad=True)


# --- RoPE ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backward", [0, 1])
def test_rope_is_that_of_models(backward):
    exercise, given = inputs("rope", B=2, T=3, D=8, backward=backward)
    done = exercise.reference(**given)
    eager = rope.eager(**given)
    for name, other in zip(("q_out", "k_out"), eager, strict=True):
        torch.testing.assert_close(done[name], other)


def test_rope_is_a_product_of_complex_numbers():
    x, angle = normal(1, 3, 2, 8).detach(), rope.angles(3, 4)
    turned = rope.rotated(x, angle.cos()[None, :, None], angle.sin()[None, :, None])
    product = torch.complex(*x.chunk(2, -1)) * torch.polar(torch.ones_like(angle), angle)[None, :, None]
    torch.testing.assert_close(turned, torch.cat([product.real, product.imag], -1))


def test_the_backward_pass_of_rope_is_the_negative_angle():
    x, dy = normal(2, 3, 2, 8), torch.ones(2, 3, 2, 8, dtype=torch.float64)
    cos, sin = (t[None, :, None] for t in (rope.angles(3, 4).cos(), rope.angles(3, 4).sin()))
    (gradient,) = torch.autograd.grad(rope.rotated(x, cos, sin), x, dy)
    torch.testing.assert_close(gradient, rope.rotated(dy, cos, -sin))


def test_scores_depend_on_the_distance_alone():
    q, k, angle = normal(1, 1, 1, 8).detach(), normal(1, 1, 1, 8).detach().flip(-1), rope.angles(10, 4)

    def score(m, n):
        return (rope.rotated(q, angle[m].cos(), angle[m].sin()) * rope.rotated(k, angle[n].cos(), angle[n].sin())).sum()

    torch.testing.assert_close(score(2, 5), score(6, 9))
    assert (score(2, 5) - score(2, 6)).abs() > 1e-3


# --- SwiGLU --------------------------------------------------------------------------------------------------------


def test_swiglu_and_its_gradient():
    x, dy = normal(3, 10), normal(3, 5).detach()
    y = torch.nn.functional.silu(x[:, :5]) * x[:, 5:]
    torch.testing.assert_close(exercises.get(f"{UNIT}/swiglu").reference(x), y)
    torch.testing.assert_close(swiglu.gradients(x.detach(), dy), torch.autograd.grad(y, x, dy)[0])


def test_where_exp_overflows_0_is_accepted():
    exercise = exercises.get(f"{UNIT}/swiglu_backward")
    x, dy = torch.tensor([[-95.0, 9e3]], dtype=torch.float64), torch.tensor([[9e3]], dtype=torch.float64)
    y = exercise.reference(x, dy)
    limit = exercise.contract.tolerance(y, exercise.magnitude(x, dy), {"M": 1, "N": 1}, "float32")
    assert (y.abs() > 1e-36).any() and (y.abs() <= limit).all()


# --- RMSNorm -------------------------------------------------------------------------------------------------------


def test_the_gradients_of_rms_norm():
    x, w, dy = normal(4, 6), normal(6), normal(4, 6).detach().flip(0)
    y = torch.nn.functional.rms_norm(x, (6,), w, norm.RMS_EPS)
    dx, dw = torch.autograd.grad(y, (x, w), dy)
    done = norm.gradients(x.detach(), w.detach(), dy)
    torch.testing.assert_close(done["dx"], dx)
    torch.testing.assert_close(done["dw"], dw)


def test_partial_sums_move_as_many_bytes_as_counted():
    exercise = exercises.get(f"{UNIT}/partial_share")
    case = next(c for c in exercise.cases if c.name == "264 programs, fp16")
    x, partial = 2 * 8192 * 4096, 4 * 264 * 4096
    assert exercise.reference(**case.sizes) == pytest.approx(2 * partial / (3 * x))
    assert "written" in exercise.explain(case.sizes, partial / (3 * x), 0.043)


# --- mistakes ------------------------------------------------------------------------------------------------------

LARGE = {"rope": {"B": 4, "T": 9}, "swiglu": {"N": 700}, "swiglu_backward": {"N": 700}, "rms_norm_backward": {"N": 127}}


@pytest.mark.parametrize("name", LARGE)
def test_every_mistake_gives_another_result(name):
    exercise, given = inputs(name, **LARGE[name])
    right = exercise.expected(given)
    for mistake in exercise.known_mistakes:
        if "negative angle has the same cos" in mistake.sentence:
            continue  # in the backward pass only
        wrong = named(mistake.compute(**given), tuple(exercise.outputs))
        assert wrong and all(
            y.shape == right[n].shape and not torch.allclose(y, right[n], rtol=1e-8) for n, y in wrong.items()
        ), mistake.sentence
