"""unsloth: norms, gates, rotary embeddings, cross entropy, and products of 8-bit floats for fine-tuning."""

import importlib

import torch
from packaging.version import Version
from torch.nn import functional as F

from ..case import CHAIN, Collection, agree


def with_versions():
    """What is imitated must compare versions, and keep functions as they are."""
    importlib.import_module("unsloth_zoo.utils").Version = Version
    importlib.import_module("unsloth_zoo.temporary_patches.common").torch_compile = lambda function, **_: function


COLLECTION = Collection(
    "unsloth",
    "unslothai",
    "015bdef0d94a241bcd94eec7a405b1700632180d",
    "Apache-2.0",
    "unsloth",
    bare=("unsloth", "unsloth.kernels"),
    imitated=("unsloth_zoo", "transformers", "bitsandbytes", "peft", "trl", "fbgemm_gpu", "torchao"),
    prepare=with_versions,
)
case = COLLECTION.case


@case("unsloth.kernels.rms_layernorm")
def rms_norm(m, draw):
    for gemma in (False, True):
        expected = lambda x, w, gemma=gemma: x * (x.square().mean(-1, True) + 1e-6).rsqrt() * (w + gemma)  # noqa: E731
        weight = draw(60)
        mine = lambda x, gemma=gemma, w=weight: m.Fast_RMS_Layernorm.apply(x, w, 1e-6, gemma)  # noqa: E731
        yield from agree(mine, lambda x, e=expected, w=weight: e(x, w.double()), draw(2, 7, 60))


@case("unsloth.kernels.layernorm")
def layer_norm(m, draw):
    weight, bias = draw(60), draw(60)
    mine = lambda x: m.Fast_Layernorm.apply(x, weight, bias, 1e-5)  # noqa: E731
    yield from agree(mine, lambda x: F.layer_norm(x, (60,), weight.double(), bias.double(), 1e-5), draw(2, 7, 60))


def gate(source, activation, forward, backward):
    """A case for the kernels of h = f g, f = activation(e): the backward one gives h, dh f and the gradient of e."""

    def run(m, draw):
        e, g, dh = draw(1, 7, 60), draw(1, 7, 60), draw(7, 60)
        yield "forward", getattr(m, forward)(e, g), activation(e.double()) * g
        e, g = e[0], g[0]
        leaf = e.double().requires_grad_()
        f = activation(leaf)
        (f * g).backward(dh.double())
        expected = (f * g).detach(), dh * f.detach(), leaf.grad
        found = getattr(m, backward)(dh.clone(), e.clone(), g.clone())
        yield from zip(("h", "dh f", "gradient of e"), found, expected, strict=True)

    run.__name__ = forward.removesuffix("_kernel")
    return case(f"unsloth.kernels.{source}")(run)


gate("swiglu", F.silu, "swiglu_fg_kernel", "swiglu_DWf_DW_dfg_kernel")
gate("geglu", F.gelu, "geglu_exact_forward_kernel", "geglu_exact_backward_kernel")
gate("geglu", lambda x: F.gelu(x, approximate="tanh"), "geglu_approx_forward_kernel", "geglu_approx_backward_kernel")


@case("unsloth.kernels.rope_embedding")
def rope(m, draw):
    angle = draw.uniform(9, 16, high=6.0).repeat(1, 2)
    cos, sin = angle.cos(), angle.sin()

    def expected(x):
        a, b = x.chunk(2, -1)
        return x * cos.double()[:, None] + torch.cat([-b, a], -1) * sin.double()[:, None]

    mine = lambda x: m.Fast_RoPE_Embedding.apply(x, cos, sin)  # noqa: E731
    yield from agree(mine, expected, draw(2, 9, 4, 32))


@case("unsloth.kernels.rope_embedding")
def rope_of_both(m, draw):
    angle = draw.uniform(9, 16, high=6.0).repeat(1, 2)
    cos, sin = angle.cos(), angle.sin()

    def turned(x):
        a, b = x.chunk(2, -1)
        return x * cos.double() + torch.cat([-b, a], -1) * sin.double()

    mine = lambda q, k: m.Fast_RoPE_Embedding_QK.apply(q, k, cos, sin, None)  # noqa: E731
    yield from agree(mine, lambda q, k: (turned(q), turned(k)), draw(2, 4, 9, 32), draw(2, 2, 9, 32))


@case("unsloth.kernels.cross_entropy_loss")
def cross_entropy(m, draw):
    target = draw.integers(9, high=90)
    target[3] = -100
    mine = lambda x: m.Fast_CrossEntropyLoss.apply(x, target, 0, 0)  # noqa: E731
    yield from agree(mine, lambda x: F.cross_entropy(x, target, reduction="none"), draw(9, 90))


@case("unsloth.kernels.cross_entropy_loss")
def cross_entropy_in_chunks(m, draw):
    target = draw.integers(2, high=70000)
    mine = lambda x: m.Fast_CrossEntropyLoss.apply(x, target, 30.0, 0)  # noqa: E731
    expected = lambda x: F.cross_entropy(30 * torch.tanh(x / 30), target, reduction="none")  # noqa: E731
    yield from agree(mine, expected, draw(2, 70000))


@case("unsloth.kernels.fp8")
def quantization(m, draw):
    x = draw(4, 256)
    q, scale = m.act_quant(x, 128)
    expected = x.double().view(4, 2, 128).abs().amax(-1) / 448
    yield "scales", scale, expected
    rounded = (x.view(4, 2, 128) / scale[..., None]).to(torch.float8_e4m3fn)
    yield "values", q.float().view(4, 2, 128), rounded.double()
    weight, s = draw(130, 200).to(torch.float8_e4m3fn), draw.uniform(2, 2, low=0.5)
    whole = s.double().repeat_interleave(128, 0)[:130].repeat_interleave(128, 1)[:, :200]
    yield "dequantized", m.weight_dequant_block(weight, s, dtype=torch.float32), weight.double() * whole


@case("unsloth.kernels.fp8")
def matmul_fp8(m, draw):
    a, b = draw(40, 256).to(torch.float8_e4m3fn), draw(128, 256).to(torch.float8_e4m3fn)
    scale_a, scale_b = draw.uniform(40, 2, low=0.5), draw.uniform(1, 2, low=0.5)
    wide = [
        a.double() * scale_a.double().repeat_interleave(128, 1),
        b.double() * scale_b.double().repeat_interleave(128, 1),
    ]
    yield "result", m.w8a8_block_fp8_matmul_triton(a, b, scale_a, scale_b, [128, 128]), wide[0] @ wide[1].T, CHAIN
