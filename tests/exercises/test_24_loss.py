"""Unit 24: the reference loss beside PyTorch, its mistakes, the memory it takes."""

import pytest
import torch

from labutils.exercises import block_loss, get
from labutils.spec.inputs import hidden_cases, make_run

LOSS = get("24_loss/linear_cross_entropy")


def inputs(case=4, seed=3):
    return make_run(LOSS, LOSS.cases[case], seed).inputs()


@pytest.mark.parametrize("case", range(len(LOSS.cases)))
def test_the_reference_is_cross_entropy(case):
    data = {name: value.double() for name, value in inputs(case).items()}
    x = data["x"].clone().requires_grad_()
    expected = torch.nn.functional.cross_entropy(x @ data["w"].T, data["targets"].long())
    expected.backward()
    found = block_loss.loss(**data)
    torch.testing.assert_close(found["loss"][0], expected.detach(), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(found["dx"], x.grad, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("seed", range(20))
def test_no_logit_leaves_the_format_that_stores_it(seed):
    """In fp16, and near enough to zero that the rounded logits still give the loss."""
    for case in (*LOSS.cases, *hidden_cases(LOSS, seed)):
        data = make_run(LOSS, case, seed).inputs()
        assert (data["x"].double() @ data["w"].double().T).abs().max() < 4096, case.name


def test_the_walk_without_a_mistake_is_the_reference():
    data, right = inputs(), block_loss.loss(**inputs())
    for name, value in block_loss._walk(**data).items():
        torch.testing.assert_close(value, right[name])


def test_every_mistake_differs_from_the_reference():
    data, right = inputs(), block_loss.loss(**inputs())
    for mistake in LOSS.known_mistakes:
        found = mistake.compute(**data)
        assert any(not torch.allclose(found[name], right[name], rtol=1e-3, atol=1e-4) for name in right), (
            mistake.sentence
        )


def test_memory_of_llama():
    assert block_loss.peak_bytes(8192, 4096, 128_256, 16_384) == (6_304_038_912, 402_653_184)
