"""Unit 14's products in Gluon: every tile compiles for Hopper and fits, also without a GPU; on one, it is right."""

import os
import subprocess
import sys

import pytest

from labutils.gpu import device

COMPILE = """
import sys
import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

from labutils.lessons.matmul_gluon import TILES, matmul_kernel

def boxes(rows, columns):
    layout = gl.NVMMASharedLayout.get_default_for([rows, columns], gl.float16)
    return f"tensordesc<fp16[{rows}, {columns}],{layout!r}>"

by_columns = sys.argv[1] == "NK"
for tile in TILES.values():
    columns, more = ((n, 64) if by_columns else (64, n) for n in (tile.columns, tile.more or tile.columns))
    types = [boxes(tile.rows, 64), boxes(*columns), boxes(*more), boxes(tile.rows, tile.piece), "i32", "i32", "i32"]
    constants = {"ROWS": tile.rows, "COLUMNS": tile.columns, "MORE": tile.more, "STAGES": tile.stages, "GROUP_M": 8,
                 "B_IS_NK": by_columns, "PIECE": tile.piece}
    names = matmul_kernel.arg_names
    signature = dict(zip(names, [*types, *["constexpr"] * len(constants)], strict=True))
    places = {(names.index(name),): value for name, value in constants.items()}
    source = GluonASTSource(matmul_kernel, signature, places)
    found = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
    print(found.asm["ptx"].count("wgmma.mma_async"), found.metadata.shared)
"""


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["KN", "NK"])
def test_every_tile_compiles_for_hopper(layout):
    pytest.importorskip("triton.experimental.gluon.language.nvidia.hopper")
    environment = os.environ | {"TRITON_INTERPRET": "0"}
    found = subprocess.run([sys.executable, "-c", COMPILE, layout], capture_output=True, text=True, env=environment)
    assert found.returncode == 0, found.stderr[-2000:]
    lines = [tuple(map(int, line.split())) for line in found.stdout.splitlines()[-6:]]
    assert len(lines) == 6
    for products, shared in lines:
        assert products > 0
        assert shared <= 227 * 1024  # what a block of an H100 may use


@pytest.mark.gpu
@pytest.mark.parametrize("sizes", [(1, 8, 8), (1000, 777, 333), (3000, 4008, 1000)], ids=str)
@pytest.mark.parametrize("by_columns", [False, True])
def test_the_products_agree_with_fp64(sizes, by_columns):
    if not device.runs(90):
        pytest.skip("needs a Hopper GPU")
    import torch

    from labutils.lessons import matmul_gluon

    M, N, K = sizes
    a, b = (torch.randn(s, device="cuda").half() for s in ((M, K), (N, K) if by_columns else (K, N)))
    b = b.T if by_columns else b
    expected = (a.double() @ b.double()).clamp_min(0)
    for shape in matmul_gluon.SHAPES:
        c = torch.full((M, N), torch.nan, device="cuda", dtype=torch.float16)
        matmul_gluon.matmul_relu(a, b, c, shape)
        assert ((c.double() - expected).abs() <= 2**-10 * expected + 2**-11 * K**0.5).all(), shape
