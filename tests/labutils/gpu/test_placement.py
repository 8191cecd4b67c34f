"""Placements: terms by hand, and published choices."""

import pytest

from labutils.exercises.placement import MODELS, model_and_machine
from labutils.gpu import placement

SMALL = {"parameters": 1e9, "layers": 10, "width": 1000, "sequence": 1000, "batch": 8}
MACHINE = {"gpus": 8, "node": 8, "memory_gb": 80, "tflops": 100, "node_gbs": 100, "net_gbs": 10}


def test_memory_by_hand():
    assert placement.memory_gb(SMALL, 8, 1, 1) == pytest.approx(16 + 0.34)  # 34 · 1000 · 1000 · 10 layers
    assert placement.memory_gb(SMALL, 1, 2, 4) == pytest.approx((16 * 0.3e9 + 34e6 * 3 * 4) / 2 / 1e9)  # 3 of 10 layers
    assert placement.memory_gb(SMALL, 8, 1, 4) == pytest.approx(16 * 0.3 + 0.034 * 3)  # a single microbatch


def test_time_by_hand():
    compute = 6 * 1e9 * 1000 / 100e12 * 1e3  # ms of one sequence on one GPU
    gradients = 2 * 7 / 8 * 2e9 / 10e9 * 1e3
    assert placement.step_ms(SMALL, MACHINE, 8, 1, 1) == pytest.approx(compute + gradients)
    reduces = 4 * 10 * 2 * 7 / 8 * 2e6 / 100e9 * 1e3
    assert placement.step_ms(SMALL, MACHINE, 1, 8, 1) == pytest.approx(8 * (compute / 8 + reduces))
    sends = 2 * 2e6 / 10e9 * 1e3
    assert placement.step_ms(SMALL, MACHINE, 1, 1, 5) == pytest.approx(12 * (compute / 5 + sends))


def test_every_placement_uses_all_gpus_and_stays_in_a_node():
    found = list(placement.allowed(SMALL, MACHINE | {"gpus": 16, "node": 4}))
    assert all(dp * tp * pp == 16 and 4 % tp == 0 and pp <= 10 and 8 % dp == 0 for dp, tp, pp in found)
    assert (4, 4, 1) in found and (16, 1, 1) not in found and (1, 1, 16) not in found


def test_405b_on_16384_gpus_is_placed_as_it_was_trained():
    """dp = 128, tp = 8, pp = 16: Llama 3, arXiv:2407.21783, table 4."""
    given = model_and_machine(1, 16_384, memory_gb=141, tflops=400, node_gbs=450, net_gbs=50)
    assert placement.best(**given) == (128, 8, 16)
    assert placement.best(**model_and_machine(1, 64, memory_gb=141, tflops=400, node_gbs=450, net_gbs=50)) is None


def test_more_tensor_ranks_or_stages_never_need_more_memory():
    for model in MODELS:
        for tp, pp in ((1, 1), (2, 4), (4, 2)):
            assert placement.memory_gb(model, 1, 2 * tp, pp) < placement.memory_gb(model, 1, tp, pp)
            assert placement.memory_gb(model, 4, tp, 2 * pp) < placement.memory_gb(model, 4, tp, pp) * 1.1
