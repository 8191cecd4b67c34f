"""The capstone's race, as far as it goes without a GPU: its data, its reference, its table."""

import logging

import pytest
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


def test_autotuning_is_quiet_and_then_as_before():
    from torch._inductor import config

    log = logging.getLogger("torch._inductor.select_algorithm")
    before, level = config.autotune_num_choices_displayed, log.level
    with pytest.raises(KeyError), capstone.quiet_autotuning():
        assert config.autotune_num_choices_displayed == 0 and not config.max_autotune_report_choices_stats
        assert not log.isEnabledFor(logging.ERROR)
        raise KeyError
    assert (config.autotune_num_choices_displayed, log.level) == (before, level)
