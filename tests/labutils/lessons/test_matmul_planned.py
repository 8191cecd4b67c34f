"""Unit 14's level 5: plans are valid at sizes that nobody tuned, and the kernels are right in the interpreter."""

import random

import pytest
import torch

from labutils.gpu import device
from labutils.lessons import matmul_planned
from labutils.lessons.matmul_gluon import SHAPES
from labutils.lessons.matmul_planned import TILES, estimate, in_parts, plan


@pytest.mark.parametrize("sms", [4, 78, 132])
def test_the_plan_fits_at_sizes_that_nobody_tuned(sms):
    """One wave and work for every part; no persistent tile has a smaller estimate."""
    rng = random.Random(4)
    for _ in range(300):
        M, N, K = (max(1, int(2 ** rng.uniform(0, 14))) for _ in range(3))
        by_columns = rng.random() < 0.5
        m, n, parts = plan(M, N, K, by_columns, sms)
        if parts:
            assert (m, n) in TILES and -(-M // m) * -(-N // n) * parts <= sms and parts <= max(1, K // 128), (M, N, K)
        else:
            assert (m, n) in SHAPES, (M, N, K)
        least = estimate(M, N, K, m, n, max(parts, 1), sms, by_columns)
        assert least <= min(estimate(M, N, K, *tile, 1, sms, by_columns) for tile in SHAPES), (M, N, K)


def test_the_plan_splits_where_there_are_few_tiles():
    assert plan(16, 4096, 4096, False, 132)[2] > 1
    assert plan(512, 512, 16384, False, 132)[2] > 1
    assert plan(4096, 4096, 4096, False, 132) == (128, 256, 0)
    assert plan(7168, 3072, 8192, False, 132) == (128, 192, 0)


def test_more_work_takes_longer():
    for m, n in TILES:
        assert estimate(512, 512, 4096, m, n, 1, 132) < estimate(512, 512, 8192, m, n, 1, 132)
        assert estimate(512, 512, 4096, m, n, 1, 132) < estimate(512, 520, 4104, m, n, 1, 132)


@pytest.mark.parametrize("by_columns", [False, True], ids=["K x N", "N x K"])
@pytest.mark.parametrize("sizes", [(33, 70, 200), (130, 40, 300), (1, 5, 7)], ids=str)
def test_parts_in_memory(sizes, by_columns):
    """One part and several, also where C is not aligned, and with more parts than blocks of K."""
    if device.has_gpu():
        pytest.skip("the test below is for GPUs")
    M, N, K = sizes
    a, b = torch.randn(M, K).half(), torch.randn(*((N, K) if by_columns else (K, N))).half()
    b = b.T if by_columns else b
    for rows, columns, parts in ((64, 64, 1), (128, 32, 2), (64, 128, 3)):
        c = torch.full((M, N), torch.nan, dtype=torch.float16)
        in_parts(a, b, c, rows, columns, parts)
        assert torch.allclose(c.float(), (a.float() @ b.float()).clamp_min(0), rtol=2e-3, atol=0.02)


@pytest.mark.gpu
@pytest.mark.parametrize("by_columns", [False, True], ids=["K x N", "N x K"])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (100, 136, 5000), (1000, 777, 333), (3000, 2000, 64)], ids=str)
def test_planned_products_on_a_gpu(sizes, by_columns):
    """Right, and the same in each run."""
    if not device.runs(90):
        pytest.skip("needs a Hopper GPU")
    M, N, K = sizes
    a, b = (torch.randn(s, device="cuda").half() for s in ((M, K), (N, K) if by_columns else (K, N)))
    b = b.T if by_columns else b
    expected = (a.double() @ b.double()).clamp_min(0)
    results = []
    for _ in range(3):
        c = torch.full((M, N), torch.nan, device="cuda", dtype=torch.float16)
        matmul_planned.matmul_relu(a, b, c)
        assert ((c.double() - expected).abs() <= 2**-10 * expected + 2**-11 * K**0.5).all()
        results.append(c)
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])
