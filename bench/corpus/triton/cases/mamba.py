"""mamba: selective scans in chunks, gated norms and the step of a decoder."""

import importlib
from unittest import mock

import torch
from torch.nn import functional as F

from ..case import CHAIN, Collection, agree


def rearrange(x, pattern, **sizes):
    """The calls of einops on the way."""
    changes = {
        "... p n -> ... (p n)": lambda: x.flatten(-2),
        "... (p n) -> ... p n": lambda: x.unflatten(-1, (-1, sizes["n"])),
        "... l s -> ... s l": lambda: x.mT,
    }
    return changes[pattern]()


def with_einops():
    if isinstance(einops := importlib.import_module("einops"), mock.NonCallableMock):
        einops.rearrange = rearrange


COLLECTION = Collection(
    "mamba",
    "state-spaces",
    "e9594ce1c732d97440f0332fdc43170a2294dbfa",
    "Apache-2.0",
    "mamba_ssm",
    bare=("mamba_ssm", "mamba_ssm.ops", "mamba_ssm.ops.triton", "mamba_ssm.utils"),
    imitated=("einops", "causal_conv1d", "causal_conv1d_cuda", "selective_scan_cuda"),
    prepare=with_einops,
)
case = COLLECTION.case

H, P, N = 2, 16, 16
"""Heads, elements of a head, states."""


def scan(x, dt, a, b, c):
    """S = exp(dt a) S + dt x bᵀ and y = S c, for each head; b and c are shared by the heads."""
    state, outputs = torch.zeros(x.shape[0], H, x.shape[3], b.shape[3], dtype=x.dtype), []
    for t in range(x.shape[1]):
        step = dt[:, t, :, None, None]
        state = state * (step * a[:, None, None]).exp() + step * x[:, t, :, :, None] * b[:, t, :, None, :]
        outputs.append((state * c[:, t, :, None, :]).sum(-1))
    return torch.stack(outputs, 1)


@case("mamba_ssm.ops.triton.ssd_combined")
def chunk_scan(m, draw):
    steps = 96
    x, b, c = draw(1, steps, H, P), draw(1, steps, 1, N), draw(1, steps, 1, N)
    dt, a = draw.uniform(1, steps, H, low=0.01, high=0.3), -draw.uniform(H, low=0.5, high=2.0)
    mine = lambda x, dt, a, b, c: m.mamba_chunk_scan_combined(x, dt, a, b, c, 32)  # noqa: E731
    yield from agree(mine, scan, x, dt, a, b, c, precision=CHAIN)


@case("mamba_ssm.ops.triton.ssd_bmm")
def products_of_chunks(m, draw):
    a, b = draw(1, 64, 1, 32), draw(1, 64, 1, 32)
    parts = [x.double()[0, :, 0].view(2, 32, 32) for x in (a, b)]
    expected = (parts[0] @ parts[1].mT)[None, :, None]
    yield "result", m._bmm_chunk_fwd(a, b, 32), expected, CHAIN


@case("mamba_ssm.ops.triton.selective_state_update")
def decoder_step(m, draw):
    state, x, dt, a = draw(2, 20, 16), draw(2, 20), draw(2, 20), -draw.uniform(20, 16, high=2.0)
    b, c, d, z, bias = draw(2, 16), draw(2, 16), draw(20), draw(2, 20), draw(20)
    step = F.softplus(dt.double() + bias)
    after = state.double() * (step[..., None] * a).exp() + (step * x)[..., None] * b[:, None]
    expected = ((after * c[:, None]).sum(-1) + d * x) * F.silu(z.double())
    yield "result", m.selective_state_update(state, x, dt, a, b, c, d, z, bias, dt_softplus=True), expected
    yield "state", state, after


@case("mamba_ssm.ops.triton.layernorm_gated")
def layer_norm_gated(m, draw):
    expected = lambda x, w, b, z: F.layer_norm(x, (60,), w, b, 1e-6) * F.silu(z)  # noqa: E731
    yield from agree(m.layernorm_fn, expected, draw(7, 60), draw(60), draw(60), draw(7, 60))


@case("mamba_ssm.ops.triton.layer_norm")
def rms_norm(m, draw):
    def expected(x, w, r):
        x = x + r
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * w

    yield from agree(lambda x, w, r: m.rms_norm_fn(x, w, None, r), expected, draw(7, 60), draw(60), draw(7, 60))


@case("mamba_ssm.ops.triton.k_activations")
def swiglu(m, draw):
    expected = lambda x: F.silu(x[..., :30]) * x[..., 30:]  # noqa: E731
    yield from agree(m.SwiGLU.apply, expected, draw(7, 60))
