"""The backward pass in Gluon: it compiles for Hopper, also without a GPU; on one, its gradients are right."""

import itertools
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

from labutils.lessons.flash_backward_gluon import BLOCK_M, STAGES, backward_kernel

def tiles(shape, kind=gl.bfloat16, name="bf16"):
    layout = gl.NVMMASharedLayout.get_default_for(shape, kind)
    return f"tensordesc<{name}{shape},{layout!r}>"

queries, keys, half = tiles([1, BLOCK_M, 128]), tiles([1, 128, 128]), tiles([1, 64, 128])
statistics = tiles([1, BLOCK_M], gl.float32, "fp32")
plain = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=2)
sums = f"tensordesc<fp32[{BLOCK_M // 4}, 256],{plain!r}>"
types = [queries, keys, keys, queries, statistics, statistics, half, half, sums, "i32", "fp32", "i32"]
constants = {
    "GROUP": 2, "D": 128, "BLOCK_M": BLOCK_M, "CAUSAL": sys.argv[1] == "True", "RAGGED": True, "STAGES": STAGES
}
types += ["constexpr"] * len(constants)
signature = dict(zip(backward_kernel.arg_names, types, strict=True))
places = {(backward_kernel.arg_names.index(name),): value for name, value in constants.items()}
aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(types) if name == "i32"}
source = GluonASTSource(backward_kernel, signature, places, aligned)
found = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
print(found.asm["ptx"].count("wgmma.mma_async"), found.metadata.shared)
"""


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
def test_it_compiles_for_hopper(causal):
    pytest.importorskip("triton.experimental.gluon.language.nvidia.hopper")
    environment = os.environ | {"TRITON_INTERPRET": "0"}
    command = [sys.executable, "-c", COMPILE, str(causal)]
    found = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert found.returncode == 0, found.stderr[-2000:]
    products, shared = map(int, found.stdout.split()[-2:])
    assert products > 0
    assert shared <= 227 * 1024  # what a block of an H100 may use


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("heads", "key_heads", "M"),
    [(80, 40, 640), (4, 4, 128), (4, 2, 1000), (3, 3, 200), (2, 1, 129), (4, 2, 65), (2, 2, 17), (2, 1, 1)],
)
def test_gradients_agree_with_the_formula(heads, key_heads, M, causal):
    """More programs than SMs, shared key heads, and lengths that end within a tile or within the keys of a program."""
    if not device.runs(90):
        pytest.skip("needs a Hopper GPU")
    import torch

    from labutils.lessons.attention import formula, forward
    from labutils.lessons.flash_backward_gluon import backward

    torch.manual_seed(0)
    q, dout = torch.randn(2, heads, M, 128, device="cuda", dtype=torch.bfloat16)
    k, v = torch.randn(2, key_heads, M, 128, device="cuda", dtype=torch.bfloat16)
    out, lse = (x.contiguous() for x in forward(q, k, v, causal))
    gradients = [torch.full_like(x, torch.nan) for x in (q, k, v)]
    backward(q, k, v, out, dout, lse, *gradients, causal)
    exact = [x.double().requires_grad_() for x in (q, k, v)]
    right = torch.autograd.grad(formula(*exact, causal)[0], exact, dout.double())
    for name, got, expected in zip(("dq", "dk", "dv"), gradients, right, strict=True):
        assert (got - expected).abs().max() < 1e-2 * max(1, expected.abs().max()), name


@pytest.mark.parametrize("M", [64, 128, 70])
def test_the_kernels_around_it(M):
    """Before it, delta, lse in base 2 and zeros, with P = 0 past the end of a head; after it, sums in the order of
    `give_dq` come back to rows."""
    import torch

    lesson = pytest.importorskip("labutils.lessons.flash_backward_gluon")
    H, D, BLOCK_M = 2, 128, lesson.BLOCK_M
    tiles = H * -(-M // BLOCK_M)
    out, dout, lse = torch.randn(H, M, D), torch.randn(H, M, D), torch.randn(H, M)
    lse2, delta, sums = (
        torch.full(size, torch.nan) for size in ((H, tiles // H * BLOCK_M),) * 2 + ((tiles, BLOCK_M, D),)
    )
    lesson.prepare_kernel[(tiles,)](out, dout, lse, lse2, delta, sums, M, D=D, BLOCK_M=BLOCK_M)
    torch.testing.assert_close(delta[:, :M], (out * dout).sum(-1), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(torch.exp2(lse2[:, :M]), torch.exp(lse))
    assert torch.isposinf(lse2[:, M:]).all()
    assert not delta[:, M:].any()
    assert not sums.any()

    # of 8 columns and 16 rows, each lane holds 2 neighbors of row r and 2 of row r + 8
    right, written = torch.arange(sums.numel()).view(tiles, BLOCK_M, D).float(), []
    for half in right.view(tiles, BLOCK_M, 2, D // 2).transpose(1, 2).flatten(0, 1):
        for columns in half.split(8, 1):
            for rows in columns.split(16):
                written += [
                    rows[r + row, 2 * lane + i]
                    for r, lane, row, i in itertools.product(range(8), range(4), (0, 8), range(2))
                ]
    dq = torch.full((H, M, D), torch.nan)
    lesson.convert_kernel[(tiles * 2,)](torch.stack(written), dq, 2.0, M, D=D, BLOCK_M=BLOCK_M)
    assert torch.equal(dq, 2 * right.view(H, -1, D)[:, :M])
