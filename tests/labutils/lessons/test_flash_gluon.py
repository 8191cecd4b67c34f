"""The forward Gluon kernel of attention: it compiles for Hopper, also without a GPU; on one, it is right."""

import itertools
import os
import subprocess
import sys

import pytest

from grader.course.solutions import solution_text
from labutils.gpu import device

COMPILE = """
import sys
import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

sys.path.insert(0, sys.argv[1])
from unit import overlap
from labutils.lessons.flash_gluon import flash_kernel

def tiles(*shape):
    layout = gl.NVMMASharedLayout.get_default_for(list(shape), gl.bfloat16)
    return f"tensordesc<bf16{list(shape)},{layout!r}>"

def compiled(kernel, types, constants):
    types = [*types, *["constexpr"] * len(constants)]
    signature = dict(zip(kernel.arg_names, types, strict=True))
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(types) if name in ("i32", "*fp32")}
    source = GluonASTSource(kernel, signature, places, aligned)
    found = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
    print(found.asm["ptx"].count("wgmma.mma_async"), found.metadata.shared)

D, causal, tail = (int(x) for x in sys.argv[2:])
types = [tiles(1, 64, D), tiles(1, 128, D), tiles(1, 128, D), tiles(1, 64, D), "*fp32", "*i32", "*i32", "i32", "fp32",
         "i32"]
constants = {"D": D, "BLOCK_N": 128, "CAUSAL": bool(causal), "TAIL": bool(tail), "STAGES": 2,
             "GROUPS": 2 if D == 128 else 3, "START": overlap}
compiled(flash_kernel, types, constants)
"""


@pytest.mark.slow
@pytest.mark.parametrize("which", ["64 1 0", "64 0 1", "128 0 0"])
def test_the_gluon_kernel_compiles_for_hopper(tmp_path, which):
    pytest.importorskip("triton.experimental.gluon.language.nvidia.hopper")
    (tmp_path / "unit.py").write_text(solution_text("17_flash_attention"), encoding="utf-8")
    environment = os.environ | {"TRITON_INTERPRET": "0"}
    found = subprocess.run(
        [sys.executable, "-c", COMPILE, str(tmp_path), *which.split()], capture_output=True, text=True, env=environment
    )
    assert found.returncode == 0, found.stderr[-2000:]
    products, shared = map(int, found.stdout.split()[-2:])
    assert products > 0
    assert shared <= 227 * 1024  # what a block of an H100 may use


@pytest.mark.parametrize(("heads", "pieces", "programs"), [(128, 32, 132), (3, 5, 132), (24, 19, 7), (6, 1, 4)])
@pytest.mark.parametrize("causal", [False, True])
def test_the_schedule_balances_every_piece_once(heads, pieces, programs, causal):
    flash_gluon = pytest.importorskip("labutils.lessons.flash_gluon")
    costs = [i + 1 if causal else pieces for i in range(pieces)]
    given = flash_gluon.schedule(heads, costs, programs)
    assert sorted(itertools.chain.from_iterable(given)) == list(range(heads * pieces))
    loads = [sum(costs[piece % pieces] + 1 for piece in program) for program in given]
    assert max(loads) - min(loads) <= max(costs) + 1  # the last piece of a program begins before another one is free


@pytest.mark.parametrize(("heads", "pieces"), [(60, 27), (48, 16), (48, 24), (128, 31), (32, 86)])
def test_the_short_pieces_of_a_causal_mask_even_out_the_programs(heads, pieces):
    flash_gluon = pytest.importorskip("labutils.lessons.flash_gluon")
    costs = [1.5 * (i + 1) for i in range(pieces)]
    loads = [sum(costs[i % pieces] + 1 for i in program) for program in flash_gluon.schedule(heads, costs, 132)]
    assert max(loads) <= 1.04 * sum(loads) / 132


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("N, D", [(128, 128), (640, 128), (384, 64), *itertools.product((1, 63, 200, 1000), (64, 128))])
def test_the_gluon_kernel_agrees_with_the_formula(N, D, causal, tmp_path):
    """More pieces than SMs, pieces in part, groups without queries, any number of keys, two query heads for each key
    head; and nothing is written behind the arrays."""
    if not device.runs(90):
        pytest.skip("needs a Hopper GPU")
    import torch

    from grader.course.solutions import load_text
    from labutils.lessons import flash_gluon
    from labutils.lessons.attention import formula

    torch.manual_seed(0)
    q = torch.randn(80, N, D, device="cuda", dtype=torch.bfloat16)
    k, v = torch.randn(2, 40, N, D, device="cuda", dtype=torch.bfloat16)
    memory = torch.full((80 * N + 64, D), 7.0, device="cuda", dtype=torch.bfloat16)
    out, lse = memory[: 80 * N].view(q.shape), torch.empty(q.shape[:2], device="cuda")
    flash_gluon.launcher(load_text(solution_text("17_flash_attention"), tmp_path).overlap)(q, k, v, out, lse, causal)
    right = formula(*(x.double() for x in (q, k, v)), causal)
    found = {"out": (out, right[0]), "lse": (lse, right[1])}
    assert (memory[80 * N :] == 7).all()
    for name, (got, expected) in found.items():
        assert (got - expected).abs().max() < 1e-2 * expected.abs().max(), name
