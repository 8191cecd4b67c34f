"""Liger-Kernel: norms, losses and gates for training language models, forward and backward."""

import torch
import torch.distributed.tensor  # noqa: F401  (launchers look for its class)
from torch.nn import functional as F

from ..case import CHAIN, Collection, agree

COLLECTION = Collection(
    "Liger-Kernel",
    "linkedin",
    "ead96b618e5c67bddc6a6e9bcb99bfe6b5ab661c",
    "BSD-2-Clause",
    "src/liger_kernel",
    root="src",
    bare=("liger_kernel", "liger_kernel.ops"),
)
case = COLLECTION.case


def rms(x, eps=1e-6):
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt()


@case("liger_kernel.ops.rms_norm")
def rms_norm(m, draw):
    norm = lambda x, w: m.LigerRMSNormFunction.apply(x, w, 1e-6, 1.0, "gemma", False, True)  # noqa: E731
    yield from agree(norm, lambda x, w: rms(x) * (1 + w), draw(7, 96), draw(96))


@case("liger_kernel.ops.rms_norm")
def rms_norm_blocks(m, draw):
    norm = lambda x, w: m.LigerRMSNormFunction.apply(x, w, 1e-6, 0.0, "llama", True, False)  # noqa: E731
    yield from agree(norm, lambda x, w: rms(x) * w, draw(40, 100), draw(100))


@case("liger_kernel.ops.layer_norm")
def layer_norm(m, draw):
    norm = lambda x, w, b: m.LigerLayerNormFunction.apply(x, w, b, 1e-5)  # noqa: E731
    yield from agree(norm, lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b, 1e-5), draw(9, 70), draw(70), draw(70))


@case("liger_kernel.ops.fused_add_rms_norm")
def fused_add_rms_norm(m, draw):
    norm = lambda x, r, w: m.LigerFusedAddRMSNormFunction.apply(x, r, w, 1e-6)  # noqa: E731
    yield from agree(norm, lambda x, r, w: (rms(x + r) * w, x + r), draw(5, 60), draw(5, 60), draw(60))


@case("liger_kernel.ops.group_norm")
def group_norm(m, draw):
    norm = lambda x, w, b: m.LigerGroupNormFunction.apply(x, w, b, 6, 3, 1e-5)  # noqa: E731
    expected = lambda x, w, b: F.group_norm(x, 3, w, b, 1e-5)  # noqa: E731
    yield from agree(norm, expected, draw(2, 6, 35), draw(6), draw(6))


@case("liger_kernel.ops.poly_norm")
def poly_norm(m, draw):
    def expected(x, w, b):
        return w[0] * rms(x**3) + w[1] * rms(x**2) + w[2] * rms(x) + b

    norm = lambda x, w, b: m.LigerPolyNormFunction.apply(x, w, b, 1e-6)  # noqa: E731
    yield from agree(norm, expected, draw(6, 50), draw(3), draw())


@case("liger_kernel.ops.modulated_rms_norm")
def modulated_rms_norm(m, draw):
    norm = lambda x, w, s, t: m.LigerModulatedRMSNormFunction.apply(x, w, s, t, 1e-6)  # noqa: E731
    expected = lambda x, w, s, t: rms(x) * w * (1 + s[:, None]) + t[:, None]  # noqa: E731
    yield from agree(norm, expected, draw(2, 4, 40), draw(40), draw(2, 40), draw(2, 40))


@case("liger_kernel.ops.dyt")
def dynamic_tanh(m, draw):
    yield from agree(
        m.LigerDyTFunction.apply,
        lambda x, a, g, b: g * torch.tanh(a * x) + b,
        draw(6, 100),
        draw(1),
        draw(100),
        draw(100),
    )


@case("liger_kernel.ops.relu_squared")
def relu_squared(m, draw):
    yield from agree(m.LigerReLUSquaredFunction.apply, lambda x: F.relu(x).square(), draw(5, 90))


@case("liger_kernel.ops.geglu")
def geglu(m, draw):
    yield from agree(
        m.LigerGELUMulFunction.apply, lambda a, b: F.gelu(a, approximate="tanh") * b, draw(5, 90), draw(5, 90)
    )


@case("liger_kernel.ops.swiglu")
def swiglu(m, draw):
    yield from agree(m.LigerSiLUMulFunction.apply, lambda a, b: F.silu(a) * b, draw(5, 90), draw(5, 90))


@case("liger_kernel.ops.swiglu")
def swiglu_fused(m, draw):
    function = next(c for n, c in vars(m).items() if n.startswith("Liger") and n != "LigerSiLUMulFunction")
    yield from agree(
        function.apply, lambda y: F.silu(y[..., : y.shape[-1] // 2]) * y[..., y.shape[-1] // 2 :], draw(5, 92)
    )


@case("liger_kernel.ops.softmax")
def softmax(m, draw):
    yield from agree(m.LigerSoftmaxFunction.apply, lambda x: x.softmax(-1), draw(5, 120))


@case("liger_kernel.ops.softmax", fault="`tl.float32` is no function")
def softmax_blocks_backward(m, draw):
    y, dy = draw(3, 300).softmax(-1), draw(3, 300)
    yield (
        "result",
        m._softmax_backward(dy, y, 128, 4, True),
        y.double() * (dy - (y.double() * dy).sum(-1, keepdim=True)),
    )


@case(
    "liger_kernel.ops.softmax",
    fault="`tl.float32` is no function, and `tl.max` of two values reads the second as an axis",
)
def softmax_blocks(m, draw):
    x = draw(3, 300)
    y = torch.empty_like(x)
    m._softmax_multi_block_forward_kernel[(3,)](y, 300, x, 300, 300, BLOCK_SIZE=128)
    yield "result", y, x.double().softmax(-1)


@case("liger_kernel.ops.sparsemax")
def sparsemax(m, draw):
    def expected(x):
        z = x.sort(-1, descending=True).values
        sums = z.cumsum(-1)
        k = torch.arange(1, x.shape[-1] + 1)
        count = (1 + k * z > sums).sum(-1, keepdim=True)
        return (x - (sums.gather(-1, count - 1) - 1) / count).clamp(min=0)

    yield from agree(lambda x: m.LigerSparsemaxFunction.apply(x, -1), expected, draw(6, 50))


@case("liger_kernel.ops.cross_entropy")
def cross_entropy(m, draw):
    target = draw.integers(6, high=90)
    target[2] = -100
    loss = lambda x: m.LigerCrossEntropyFunction.apply(x, target, None, -100, 0.0, 0.1)[0]  # noqa: E731
    yield from agree(loss, lambda x: F.cross_entropy(x, target, label_smoothing=0.1), draw(6, 90))


@case("liger_kernel.ops.cross_entropy")
def cross_entropy_weighted(m, draw):
    target, weight = draw.integers(6, high=90), draw.uniform(90, low=0.5)

    def expected(x):
        return F.cross_entropy(30 * torch.tanh(x / 30), target, weight.double())

    loss = lambda x: m.LigerCrossEntropyFunction.apply(x, target, weight, -100, 0.0, 0.0, "mean", 30.0)[0]  # noqa: E731
    yield from agree(loss, expected, draw(6, 90))


@case("liger_kernel.ops.fused_linear_cross_entropy")
def fused_linear_cross_entropy(m, draw):
    target = draw.integers(8, high=50)
    loss = lambda x, w: m.LigerFusedLinearCrossEntropyFunction.apply(x, w, target)[0]  # noqa: E731
    yield from agree(loss, lambda x, w: F.cross_entropy(x @ w.T, target), draw(8, 24), draw(50, 24))


@case("liger_kernel.ops.kl_div")
def kl_divergence(m, draw):
    log_p, q = draw(6, 70).log_softmax(-1), draw(6, 70).softmax(-1)
    loss = lambda p: m.LigerKLDivLossFunction.apply(p, q, "batchmean")  # noqa: E731
    yield from agree(loss, lambda p: F.kl_div(p, q.double(), reduction="batchmean"), log_p)


@case("liger_kernel.ops.jsd")
def jensen_shannon_divergence(m, draw):
    log_q = draw(6, 70).log_softmax(-1)

    def expected(log_p):  # beta = 0.3: the target's share of the mixture
        q, p = log_q.double(), log_p
        mixture = (0.3 * q.exp() + 0.7 * p.exp()).log()
        kl = lambda a: (a.exp() * (a - mixture)).sum(-1)  # noqa: E731
        return (0.3 * kl(q) + 0.7 * kl(p)).mean()

    loss = lambda p: m.LigerJSDFunction.apply(p, log_q, None, 0.3)  # noqa: E731
    yield from agree(loss, expected, draw(6, 70).log_softmax(-1))


@case("liger_kernel.ops.tvd")
def total_variation(m, draw):
    q = draw(6, 70).softmax(-1)
    loss = lambda p: m.LigerTVDLossFunction.apply(p, q, None, "batchmean")  # noqa: E731
    yield from agree(loss, lambda p: 0.5 * (p - q).abs().sum(-1).mean(), draw(6, 70).softmax(-1))


@case("liger_kernel.ops.rope")
def rope(m, draw):
    angle = draw.uniform(1, 9, 16, high=6.0).repeat(1, 1, 2)
    cos, sin = angle.cos(), angle.sin()

    def turned(x):
        a, b = x.chunk(2, -1)
        return x * cos[:, None].double() + torch.cat([-b, a], -1) * sin[:, None].double()

    yield from agree(
        lambda q, k: m.LigerRopeFunction.apply(q, k, cos, sin),
        lambda q, k: (turned(q), turned(k)),
        draw(2, 4, 9, 32),
        draw(2, 2, 9, 32),
    )


@case("liger_kernel.ops.qwen2vl_mrope")
def rope_sections(m, draw):
    angle = draw.uniform(3, 2, 9, 16, high=6.0).repeat(1, 1, 1, 2)
    cos, sin, sections = angle.cos(), angle.sin(), [4, 6, 6]

    def turned(x):
        pick = lambda t: torch.cat([p[i % 3] for i, p in enumerate(t.double().split(sections * 2, -1))], -1)[:, None]  # noqa: E731
        a, b = x.chunk(2, -1)
        return x * pick(cos) + torch.cat([-b, a], -1) * pick(sin)

    yield from agree(
        lambda q, k: m.LigerQwen2VLMRopeFunction.apply(q, k, cos, sin, sections),
        lambda q, k: (turned(q), turned(k)),
        draw(2, 4, 9, 32),
        draw(2, 2, 9, 32),
    )


@case("liger_kernel.ops.llama4_rope")
def rope_complex(m, draw):
    angle = draw.uniform(9, 16, high=6.0)
    frequencies = torch.polar(torch.ones_like(angle), angle)

    def turned(x):
        z = torch.view_as_complex(x.reshape(*x.shape[:-1], 16, 2))
        return torch.view_as_real(z * torch.polar(torch.ones(9, 1, 16).double(), angle[:, None].double())).flatten(-2)

    yield from agree(
        lambda q, k: m.LigerLlama4RopeFunction.apply(q, k, frequencies),
        lambda q, k: (turned(q), turned(k)),
        draw(2, 9, 4, 32),
        draw(2, 9, 2, 32),
    )


@case("liger_kernel.ops.grpo_loss")
def grpo_loss(m, draw):
    logits, ids = draw(2, 6, 40), draw.integers(2, 5, high=40)
    advantages, old = draw(2), draw(2, 5) - 4
    mask = torch.ones(2, 5, dtype=torch.int64)
    mask[1, 3:] = 0

    def expected(x):
        logp = (x[:, :-1] / 0.9).log_softmax(-1).gather(-1, ids[..., None])[..., 0]
        ratio = (logp - old).exp()
        a = advantages.double()[:, None]
        loss = -torch.minimum(ratio * a, ratio.clamp(1 - 0.2, 1 + 0.4) * a)
        return loss * mask

    yield from agree(
        lambda x: m.GrpoLossFunction.apply(
            x, old, None, ids, advantages, mask, 0.9, 0.0, 0.2, 0.4, True, "grpo", 5, False
        )[0],
        expected,
        logits,
    )


@case("liger_kernel.ops.grpo_loss")
def selective_log_softmax(m, draw):
    logits, ids = draw(2, 6, 40), draw.integers(2, 5, high=40)
    expected = (logits[:, :-1].double() / 0.9).log_softmax(-1).gather(-1, ids[..., None])[..., 0]
    yield "result", m.fused_selective_log_softmax(logits, ids, 0.9), expected


@case("liger_kernel.ops.multi_token_attention")
def multi_token_attention(m, draw):
    causal = torch.ones(12, 12, dtype=torch.bool).tril()

    def expected(scores, weight, bias):
        p = scores.masked_fill(~causal, -1e9).softmax(-1)
        return F.conv2d(p, weight, bias, padding=1).masked_fill(~causal, 0.0)

    yield from agree(
        lambda s, w, b: m.LigerMultiTokenAttentionFunction.apply(s, w, b, 1, 1),
        expected,
        draw(2, 3, 12, 12),
        draw(3, 3, 3, 3),
        draw(3),
    )


@case("liger_kernel.ops.fused_neighborhood_attention")
def neighborhood_attention(m, draw):
    near = (torch.arange(20)[:, None] - torch.arange(20)).abs() <= 3

    def expected(q, k, v):
        return (q @ k.mT / 4).masked_fill(~near, float("-inf")).softmax(-1) @ v

    yield from agree(
        lambda q, k, v: m.LigerFusedNeighborhoodAttentionFunction.apply(q, k, v, 7, 1),
        expected,
        draw(1, 2, 20, 16),
        draw(1, 2, 20, 16),
        draw(1, 2, 20, 16),
        precision=CHAIN,
    )


@case("liger_kernel.ops.fused_moe")
def fused_moe(m, draw):
    tokens, experts, hidden, inner = 20, 4, 32, 32
    choice = torch.stack([draw.order(experts)[:2] for _ in range(tokens)]).to(torch.int32)

    def expected(x, up, down, weights):
        out = torch.zeros_like(x)
        for t in range(tokens):
            for j in range(2):
                e = choice[t, j]
                gate, value = (up[e] @ x[t]).chunk(2)
                out[t] = out[t] + weights[t, j] * (down[e] @ (F.silu(gate) * value))
        return out

    yield from agree(
        lambda x, up, down, w: m.LigerFusedMoEFunction.apply(x, up, down, choice, w),
        expected,
        draw(tokens, hidden),
        draw(experts, 2 * inner, hidden),
        draw(experts, hidden, inner),
        draw.uniform(tokens, 2),
        precision=CHAIN,
    )


@case("liger_kernel.ops.attn_res")
def attention_residual(m, draw):
    def expected(v, q, w):
        scores = (rms(v) * w * q).sum(-1)
        return (scores.softmax(0)[..., None] * v).sum(0)

    yield from agree(
        lambda v, q, w: m.LigerAttnResFunction.apply(v, q, w, 1e-6), expected, draw(4, 2, 5, 32), draw(32), draw(32)
    )
