"""Unit 16 on a Hopper GPU: every level against PyTorch, on small shapes. A kernel that hangs is stopped."""

from functools import partial

import pytest
import torch

from grader.course.solutions import load, solution_text
from labutils.gpu import device
from labutils.lessons import ring_gluon, tiles_kernel

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not device.runs(90), reason="needs a Hopper GPU"),
]

SHAPES = ((1, 1, 1), (128, 256, 64), (300, 520, 328), (513, 1000, 777))


def load_watched(name, folder):
    """The solutions of a unit as a module, whose kernels are stopped after three seconds of waiting."""
    path = folder / "solution.py"
    watched = "#define SPIN_LIMIT 3000000000ul\\n#include <lab/hopper.cuh>"
    path.write_text(solution_text(name).replace("#include <lab/hopper.cuh>", watched), encoding="utf-8")
    return load(str(path))


@pytest.fixture(scope="module")
def unit(tmp_path_factory):
    return load_watched("16_matmul_hopper", tmp_path_factory.mktemp("unit"))


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    return load_watched("16_matmul_ring", tmp_path_factory.mktemp("ring"))


@pytest.mark.parametrize("M, N", [(1, 1), (63, 55), (200, 130)])
def test_scale(unit, M, N):
    x, y = torch.randn(M, N, device="cuda").half(), torch.empty(M, N, device="cuda").half()
    unit.scale(x, 1.5, y)
    assert torch.equal(y, (1.5 * x.float()).half())


def product(level, M, N, K, across=False, **options):
    a, b = torch.randn(M, K, device="cuda").half(), torch.randn(N, K, device="cuda").half()
    c = torch.full((M, N), torch.nan, device="cuda").half()
    level(a, b.T.contiguous().T if across else b, c, **options)
    expected = a.double() @ b.double().T
    assert ((c.double() - expected).abs() <= expected.abs() * 2**-10 + 2**-11 * K**0.5).all()


@pytest.mark.parametrize("M, N, K", SHAPES)
@pytest.mark.parametrize("level", ["tile", "ring", "persistent"])
def test_levels(unit, ring, level, M, N, K):
    product(getattr(unit if level == "tile" else ring, level), M, N, K)


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("stages, cluster", [(3, 1), (3, 2), (4, 1), (4, 2)])
def test_the_last_level(ring, stages, cluster, across):
    product(ring.persistent, 700, 1024, 4096, across, stages=stages, cluster=cluster)


@pytest.fixture
def tiled(ring, monkeypatch):
    monkeypatch.setattr(tiles_kernel, "SOURCE", f"#define SPIN_LIMIT 3000000000ul\n{tiles_kernel.SOURCE}")
    tiles_kernel.kernel.cache_clear()
    yield ring.tiled
    tiles_kernel.kernel.cache_clear()


@pytest.mark.parametrize("across", [False, True])
def test_tiles(ring, tiled, across):
    for tile in ring.TILES:
        for shape in (*SHAPES, (4500, 4600, 840)):
            product(partial(tiled, tile), *shape, across)


def test_gluon():
    product(ring_gluon.ring, 384, 512, 640)
