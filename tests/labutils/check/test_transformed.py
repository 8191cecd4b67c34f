"""Outputs that are the right result transformed: made by hand."""

import pytest
import torch

from labutils.check import transformed
from labutils.check.compare import Comparison
from labutils.spec.exercise import Case, Contract, array, out
from labutils.spec.inputs import make_run
from tests.labutils.check.small_exercises import MATMUL, ROW_SUM, small


def sample(exercise, case, wrong):
    run = make_run(exercise, exercise.cases[case], 5)
    (name,) = exercise.outputs
    run.buffers[name].view.copy_(wrong(run.inputs()))
    comparison = Comparison(run)
    return comparison, comparison.output(name)


def product(x):
    return x["a"].float() @ x["b"].float()


def carried(x):
    """The tiles of 16 × 16 in one row each belong to one program, which never sets its accumulator to 0."""
    c = product(x)
    for column in range(16, c.shape[1], 16):
        width = min(16, c.shape[1] - column)
        c[:, column : column + width] += c[:, column - 16 : column - 16 + width]
    return c


def test_an_accumulator_that_goes_on_is_recognized():
    found = transformed.carried_over([sample(MATMUL, 1, carried)])
    assert "the tile of 16 × 16 elements of {name} that begins at [0, 16]" in found.cause
    assert "of the tile at [0, 0]" in found.cause and "at the start of each tile" in found.advice


@pytest.mark.parametrize("wrong", [lambda x: product(x) + torch.rand(40, 24), lambda x: 2 * product(x)])
def test_other_wrong_tiles_are_not(wrong):
    assert transformed.carried_over([sample(MATMUL, 1, wrong)]) is None


def doubled(x):
    return 2 * x["x"].sum(1)


def test_a_factor_must_have_been_there_in_the_cases_that_passed():
    refused, right = sample(ROW_SUM, 0, doubled), sample(ROW_SUM, 1, lambda x: x["x"].sum(1))
    assert "2 times the right result" in transformed.of_result([refused]).cause
    assert transformed.of_result([refused], [right]) is None


def test_a_shift_of_the_results_must_too():
    refused = sample(ROW_SUM, 0, lambda x: torch.roll(x["x"].sum(1), 1))
    right = sample(ROW_SUM, 1, lambda x: x["x"].sum(1))
    assert "{name}[m] holds what belongs to {name}[m − 1]" in transformed.elsewhere([refused]).cause
    assert transformed.elsewhere([refused], [right]) is None


def test_a_factor_that_differs_from_case_to_case_is_said_by_case():
    twice, four_times = sample(ROW_SUM, 0, doubled), sample(ROW_SUM, 1, lambda x: 4 * x["x"].sum(1))
    found = transformed.by_case([twice, four_times])
    assert "2 times the right result in the case" in found.cause and "4 times" in found.cause
    assert transformed.by_case([twice, sample(ROW_SUM, 1, lambda x: 3.5 * x["x"].sum(1))]) is None
    assert transformed.by_case([twice, sample(ROW_SUM, 1, doubled)]) is None


ROWS = small(
    "rows",
    "rows",
    arguments={"x": array("M", "N"), "out": out("M", "N")},
    reference=lambda x: torch.softmax(x, 1),
    magnitude=lambda x: x.abs(),
    contract=Contract(terms=8),
    cases=(Case("3 × 96", {"M": 3, "N": 96}), Case("2 × 150", {"M": 2, "N": 150})),
)


def own_maximum(x):
    """A softmax in which each 32 elements subtract their own maximum."""
    parts = [part.sub(part.amax(1, keepdim=True)).exp() for part in x["x"].split(32, 1)]
    return torch.cat(parts, 1) / sum(part.sum(1, keepdim=True) for part in parts)


def test_a_factor_of_each_part_of_a_row():
    found = transformed.by_part([sample(ROWS, 0, own_maximum), sample(ROWS, 1, own_maximum)])
    assert "each 32 neighbors in a row" in found.cause
    of_a_row = [sample(ROWS, k, lambda x: torch.softmax(x["x"], 1) * torch.rand(len(x["x"]), 1)) for k in (0, 1)]
    noise = [sample(ROWS, k, lambda x: torch.rand_like(x["x"])) for k in (0, 1)]
    assert transformed.by_part(of_a_row) is None and transformed.by_part(noise) is None


CODES = small(
    "codes",
    "codes",
    arguments={"x": array("n"), "q": out("n", dtype="uint8")},
    reference=lambda x: torch.where(x < 0, 128, 0) + x.abs().mul(8).clamp(max=15).floor(),
    magnitude=lambda x: x.abs(),
    contract=Contract(terms=lambda s: 1),
    cases=(Case("100", {"n": 100}), Case("200", {"n": 200})),
)


def right_codes(x):
    return CODES.reference(**x)


@pytest.mark.parametrize(
    "wrong, cause",
    [
        (lambda x: right_codes(x) - 112.0 * (x["x"] < 0), "112 too small; wrong are those whose bit 7 (of value 128)"),
        (lambda x: torch.where(right_codes(x) == 0, 254.0, right_codes(x)), "is 254, where 0 belongs"),
        (lambda x: (right_codes(x).long() ^ 3).double(), "differs from the right one in the same bits, 0x3"),
        (
            lambda x: torch.where(x["x"] < 0, (right_codes(x).long() - 128 | 1).double(), right_codes(x)),
            "is wrong in bit 7, and some in bit 0; wrong are those whose bit 7",
        ),
        (lambda x: right_codes(x) + (torch.arange(len(x["x"])) % 5), None),
    ],
)
def test_of_codes_the_wrong_bits_are_named(wrong, cause):
    found = transformed.of_result([sample(CODES, 0, wrong), sample(CODES, 1, wrong)])
    assert found is None if cause is None else cause in found.cause
