"""flash-attention: its Triton kernels for norms, rotary embeddings and cross entropy.

Those for attention are written for Triton 2.
"""

import torch
from torch.nn import functional as F

from ..case import Collection, agree

COLLECTION = Collection(
    "flash-attention",
    "Dao-AILab",
    "0251105a2fb19d2957484b7f023cd8c115286ced",
    "BSD-3-Clause",
    "flash_attn",
    bare=("flash_attn", "flash_attn.ops", "flash_attn.ops.triton", "flash_attn.utils"),
)
case = COLLECTION.case


@case("flash_attn.ops.triton.rotary")
def rotary(m, draw):
    angle = draw.uniform(30, 16, high=6.0)
    x, c, s = draw(2, 30, 3, 40), angle.double().cos()[:, None], angle.double().sin()[:, None]
    a, b = x.double()[..., :16], x.double()[..., 16:32]
    expected = torch.cat([a * c - b * s, a * s + b * c, x.double()[..., 32:]], -1)
    yield "halves", m.apply_rotary(x, angle.cos(), angle.sin()), expected
    a, b = x.double()[..., :32:2], x.double()[..., 1:32:2]
    turned = torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)
    expected = torch.cat([turned, x.double()[..., 32:]], -1)
    yield "interleaved", m.apply_rotary(x, angle.cos(), angle.sin(), interleaved=True), expected


@case("flash_attn.ops.triton.cross_entropy")
def cross_entropy(m, draw):
    target = draw.integers(9, high=90)
    target[3] = -100
    mine = lambda x: m.cross_entropy_loss(x, target, label_smoothing=0.1, lse_square_scale=0.0)[0]  # noqa: E731
    expected = lambda x: F.cross_entropy(x, target, reduction="none", label_smoothing=0.1)  # noqa: E731
    yield from agree(mine, expected, draw(9, 90))


@case("flash_attn.ops.triton.layer_norm")
def layer_norm(m, draw):
    expected = lambda x, w, b, r: F.layer_norm(x + r, (90,), w, b, 1e-6)  # noqa: E731
    yield from agree(m.layer_norm_fn, expected, draw(11, 90), draw(90), draw(90), draw(11, 90))


@case("flash_attn.ops.triton.layer_norm")
def rms_norm(m, draw):
    def expected(x, w):
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * w

    yield from agree(lambda x, w: m.rms_norm_fn(x, w, None), expected, draw(11, 90), draw(90))
