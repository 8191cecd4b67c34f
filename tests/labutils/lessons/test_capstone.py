"""The capstone's race, as far as it goes without a GPU: its data, its reference, its table."""

import torch

from labutils.exercises import block_capstone
from labutils.lessons import capstone

SIZES = block_capstone.sizes_of(B=2, T=8, C=32, H=2, HK=1, D=16, F=16)


def test_eager_is_the_reference_in_bf16():
    inputs = capstone.data(SIZES, "cpu")
    found = capstone.compiled(inputs, None)(inputs["x"])
    exact = {name: t.double() for name, t in inputs.items() if name != "out"}
    assert found.dtype == torch.bfloat16
    assert 0 < capstone.differs(found, block_capstone.block(**exact)) < 0.02


def test_a_difference_is_relative_to_the_largest_element():
    assert capstone.differs(torch.tensor([1.0, 4.0]), torch.tensor([2.0, 4.0])) == 0.25


def test_a_log_is_a_table(capsys):
    capstone.show([{"change": "larger tiles", "before": 10, "predicted": 8, "measured": 10, "kept": False}])
    numbers, change = capsys.readouterr().out.splitlines()[-1].split("  larger")
    assert numbers.split() == ["10", "8", "10", "-20%"] and change == " tiles (not kept)"
