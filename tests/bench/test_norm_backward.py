"""Every variant of RMSNorm's backward kernel computes the right gradients, on small arrays without a GPU."""

import pytest
import torch

from bench import block_kernels
from bench import norm_backward as bench
from bench.common import solution

VARIANTS = {name: changes for N in (4096, 5120) for name, changes, *_ in bench.variants(4096, N)}


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    monkeypatch.setattr(block_kernels, "DEVICE", "cpu")
    monkeypatch.setattr(bench, "DEVICE", "cpu")
    torch.manual_seed(0)


def data(M, N):
    return bench.half(M, N), 1 + 0.01 * bench.half(N), bench.half(M, N), bench.half(M, N), bench.half(N)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_is_right(name):
    """40 columns are 32 + 8, as 5120 are 4096 + 1024; 7 rows do not divide by the programs."""
    arrays = data(7, 40)
    call = bench.launcher(solution(bench.UNIT, *VARIANTS[name]), 40, 4, 1, 3)
    bench.checked(call, arrays, bench.expected(*arrays[:3]))


def test_a_wrong_variant_is_refused():
    arrays = data(7, 40)
    wrong = solution(bench.UNIT, ("dw += dy * x * r", "dw += dy * x"))
    with pytest.raises(ValueError, match="dw is off by"):
        bench.checked(bench.launcher(wrong, 40, 4, 1, 3), arrays, bench.expected(*arrays[:3]))
