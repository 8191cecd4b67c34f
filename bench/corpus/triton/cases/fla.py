"""flash-linear-attention: linear attention, delta rules and gated recurrences, forward and backward."""

import importlib
from unittest import mock

import torch
from torch.nn import functional as F

from ..case import CHAIN, TF32, Collection, agree


def sum_groups():
    """The one call of einops on the way, where that is imitated: gradients of heads that share keys are added up."""
    if isinstance(einops := importlib.import_module("einops"), mock.NonCallableMock):
        einops.reduce = lambda x, pattern, reduction, g: x.unflatten(2, (-1, g)).sum(3)


COLLECTION = Collection(
    "flash-linear-attention",
    "fla-org",
    "bc3b101dcb713ddc5bd8924b66754eb68b5ccf89",
    "MIT",
    "fla",
    bare=("fla", "fla.ops", "fla.modules"),
    imitated=("einops", "transformers"),
    prepare=sum_groups,
)
case = COLLECTION.case

T, H, K, V = 70, 2, 16, 16
"""Steps of time, heads, elements of a key and of a value: one chunk of 64 steps, and a part of another."""


def linear_attention(q, k, v, decay=None, gate=None, scale=K**-0.5):
    """The recurrence S = exp(decay) S + k vᵀ, o = scale Sᵀ q, of (B, T, H, …); `decay` is of heads or of keys, and
    `gate` of values."""
    state, outputs = torch.zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3], dtype=q.dtype), []
    for t in range(q.shape[1]):
        if decay is not None:
            d = decay[:, t].exp()
            state = state * (d[..., None, None] if d.ndim == 2 else d[..., None])
        if gate is not None:
            state = state * gate[:, t].exp()[..., None, :]
        state = state + k[:, t, :, :, None] * v[:, t, :, None, :]
        outputs.append((scale * q[:, t, :, :, None] * state).sum(-2))
    return torch.stack(outputs, 1)


def delta_rule(q, k, v, beta, decay=None, scale=K**-0.5):
    """The same where each step replaces what the state holds for its key."""
    state, outputs = torch.zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3], dtype=q.dtype), []
    for t in range(q.shape[1]):
        if decay is not None:
            d = decay[:, t].exp()
            state = state * (d[..., None, None] if d.ndim == 2 else d[..., None])
        old = (state * k[:, t, :, :, None]).sum(-2)
        new = beta[:, t, :, None] * (v[:, t] - old)
        state = state + k[:, t, :, :, None] * new[:, :, None, :]
        outputs.append((scale * q[:, t, :, :, None] * state).sum(-2))
    return torch.stack(outputs, 1)


def qkv(draw, steps=T):
    return draw(1, steps, H, K), F.normalize(draw(1, steps, H, K), dim=-1), draw(1, steps, H, V)


def log_decay(draw, *shape):
    return F.logsigmoid(draw(*shape) + 2)


def attention(q, k, v, scale=None, bias=None, window=None):
    """Causal softmax attention of (B, T, H, …); heads of k and v serve groups of those of q."""
    group = q.shape[2] // k.shape[2]
    q, k, v = q.transpose(1, 2), *(x.transpose(1, 2).repeat_interleave(group, 1) for x in (k, v))
    scores = q @ k.mT * (scale or q.shape[-1] ** -0.5)
    if bias is not None:
        scores = scores + bias
    i, j = torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])
    hidden = (j > i) | (i - j >= window if window else False)
    return (scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v).transpose(1, 2)


@case("fla.ops.simple_gla.chunk")
def chunk_simple_gla(m, draw):
    mine = lambda q, k, v, g: m.chunk_simple_gla(q, k, v, g)[0]  # noqa: E731
    yield from agree(mine, linear_attention, *qkv(draw), log_decay(draw, 1, T, H), precision=CHAIN)


@case("fla.ops.simple_gla.parallel")
def parallel_simple_gla(m, draw):
    mine = lambda q, k, v, g: m.parallel_simple_gla(q, k, v, g)[0]  # noqa: E731
    yield from agree(mine, linear_attention, *qkv(draw), log_decay(draw, 1, T, H), precision=CHAIN)


@case("fla.ops.simple_gla.fused_recurrent")
def fused_recurrent_simple_gla(m, draw):
    mine = lambda q, k, v, g: m.fused_recurrent_simple_gla(q, k, v, g)[0]  # noqa: E731
    yield from agree(mine, linear_attention, *qkv(draw, 20), log_decay(draw, 1, 20, H))


@case("fla.ops.gla.chunk")
def chunk_gla(m, draw):
    mine = lambda q, k, v, g: m.chunk_gla(q, k, v, g)[0]  # noqa: E731
    yield from agree(mine, linear_attention, *qkv(draw), log_decay(draw, 1, T, H, K), precision=CHAIN)


@case("fla.ops.gla.fused_recurrent")
def fused_recurrent_gla(m, draw):
    mine = lambda q, k, v, g, h: m.fused_recurrent_gla(q, k, v, g, h)[0]  # noqa: E731
    decays = log_decay(draw, 1, 20, H, K), log_decay(draw, 1, 20, H, V)
    yield from agree(mine, linear_attention, *qkv(draw, 20), *decays)


@case("fla.ops.retention.chunk")
def chunk_retention(m, draw):
    decay = torch.log1p(-(2.0 ** (-5 - torch.arange(H).double()))).expand(1, T, H)
    mine = lambda q, k, v: m.chunk_retention(q, k, v)[0]  # noqa: E731
    yield from agree(mine, lambda q, k, v: linear_attention(q, k, v, decay), *qkv(draw), precision=CHAIN)


@case("fla.ops.linear_attn.chunk")
def chunk_linear_attention(m, draw):
    mine = lambda q, k, v: m.chunk_linear_attn(q, k, v, normalize=False)[0]  # noqa: E731
    yield from agree(mine, linear_attention, *qkv(draw), precision=CHAIN)


@case("fla.ops.lightning_attn.chunk")
def lightning_attention(m, draw):
    decay = (-8 / H * (1 - 3 / 10) * torch.arange(H).double()).expand(1, T, H)
    mine = lambda q, k, v: m.chunk_lightning_attn(q, k, v, layer_idx=3, num_layers=10)[0]  # noqa: E731
    yield from agree(mine, lambda q, k, v: linear_attention(q, k, v, decay), *qkv(draw), precision=CHAIN)


@case("fla.ops.delta_rule.chunk")
def chunk_delta_rule(m, draw):
    mine = lambda q, k, v, b: m.chunk_delta_rule(q, k, v, b)[0]  # noqa: E731
    inputs = *qkv(draw), draw.uniform(1, T, H)
    yield from agree(mine, delta_rule, *(x.bfloat16() for x in inputs))


@case("fla.ops.delta_rule.fused_recurrent")
def fused_recurrent_delta_rule(m, draw):
    mine = lambda q, k, v, b: m.fused_recurrent_delta_rule(q, k, v, b)[0]  # noqa: E731
    yield from agree(mine, delta_rule, *qkv(draw, 20), draw.uniform(1, 20, H))


@case("fla.ops.gated_delta_rule.chunk")
def chunk_gated_delta_rule(m, draw):
    mine = lambda q, k, v, b, g: m.chunk_gated_delta_rule(q, k, v, g, b)[0]  # noqa: E731
    inputs = *qkv(draw), draw.uniform(1, T, H), log_decay(draw, 1, T, H)
    yield from agree(mine, delta_rule, *inputs, precision=CHAIN)


@case("fla.ops.gated_delta_rule.fused_recurrent")
def fused_recurrent_gated_delta_rule(m, draw):
    mine = lambda q, k, v, b, g: m.fused_recurrent_gated_delta_rule(q, k, v, g, beta=b)[0]  # noqa: E731
    inputs = *qkv(draw, 20), draw.uniform(1, 20, H), log_decay(draw, 1, 20, H)
    yield from agree(mine, delta_rule, *inputs, backward=False)


@case("fla.ops.kda.chunk")
def chunk_kimi_delta(m, draw):
    mine = lambda q, k, v, b, g: m.chunk_kda(q, k, v, g, b)[0]  # noqa: E731
    inputs = *qkv(draw), draw.uniform(1, T, H), log_decay(draw, 1, T, H, K)
    yield from agree(mine, delta_rule, *inputs, precision=CHAIN)


@case("fla.ops.kda.fused_recurrent")
def fused_recurrent_kimi_delta(m, draw):
    mine = lambda q, k, v, b, g: m.fused_recurrent_kda(q, k, v, g, b)[0]  # noqa: E731
    inputs = *qkv(draw, 20), draw.uniform(1, 20, H), log_decay(draw, 1, 20, H, K)
    yield from agree(mine, delta_rule, *inputs, backward=False)


def gated_sum(x, g):
    state, outputs = torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        state = g[:, t].exp() * state + x[:, t]
        outputs.append(state)
    return torch.stack(outputs, 1)


@case("fla.ops.hgrn.chunk")
def chunk_hgrn(m, draw):
    mine = lambda x, g: m.chunk_hgrn(x, g)[0]  # noqa: E731
    yield from agree(mine, gated_sum, draw(2, 128, 32), log_decay(draw, 2, 128, 32))


@case("fla.ops.hgrn.fused_recurrent")
def fused_recurrent_hgrn(m, draw):
    mine = lambda x, g: m.fused_recurrent_hgrn(x, g)[0]  # noqa: E731
    yield from agree(mine, gated_sum, draw(2, 30, 40), log_decay(draw, 2, 30, 40))


@case("fla.ops.based.parallel")
def parallel_based(m, draw):
    def expected(q, k, v):
        s = torch.einsum("bihk,bjhk->bhij", q, k) * K**-0.5
        p = (1 + s + s.square() / 2).tril()
        return torch.einsum("bhij,bjhv->bihv", p, v)

    yield from agree(
        lambda q, k, v: m.parallel_based(q, k, v, use_norm=False), expected, *qkv(draw, 128), precision=CHAIN
    )


@case("fla.ops.rebased.parallel")
def parallel_rebased(m, draw):
    def expected(q, k, v):
        s = torch.einsum("bihk,bjhk->bhij", q, k) * K**-0.5
        return torch.einsum("bhij,bjhv->bihv", s.square().tril(), v)

    mine = lambda q, k, v: m.parallel_rebased(q, k, v, use_normalize=False)  # noqa: E731
    yield from agree(mine, expected, *qkv(draw, 128), precision=CHAIN)


@case("fla.ops.attn.parallel")
def grouped_query_attention(m, draw):
    q, k, v = draw(1, 100, 4, 32), draw(1, 100, 2, 32), draw(1, 100, 2, 32)
    yield from agree(m.parallel_attn, attention, q, k, v, precision=CHAIN)


@case("fla.ops.attn.parallel")
def windowed_attention(m, draw):
    mine = lambda q, k, v: m.parallel_attn(q, k, v, window_size=30)  # noqa: E731
    yield from agree(mine, lambda q, k, v: attention(q, k, v, window=30), *qkv(draw, 100), precision=CHAIN)


@case("fla.ops.forgetting_attn.parallel")
def forgetting_attention(m, draw):
    def expected(q, k, v, g):
        total = g.cumsum(1).transpose(1, 2)
        return attention(q, k, v, bias=total[..., :, None] - total[..., None, :])

    yield from agree(m.parallel_forgetting_attn, expected, *qkv(draw, 100), log_decay(draw, 1, 100, H), precision=CHAIN)


@case("fla.ops.attn.decoding")
def attention_decoding(m, draw):
    lengths = [9, 70]
    ends = torch.tensor([0, 9, 79])
    q, k, v = draw(1, 2, 4, 32), draw(1, 79, 2, 32), draw(1, 79, 2, 32)
    expected = []
    for n, (start, length) in enumerate(zip(ends.tolist(), lengths, strict=False)):
        keys, values = (x[0, start : start + length].double().repeat_interleave(2, 1) for x in (k, v))
        p = (torch.einsum("hk,thk->ht", q[0, n].double(), keys) * 32**-0.5).softmax(-1)
        expected.append(torch.einsum("ht,thv->hv", p, values))
    yield "result", m.attn_decoding_one_step(q, k, v, cu_seqlens=ends), torch.stack(expected)[None], TF32


def rwkv6_reference(r, k, v, w, u):
    state, outputs = torch.zeros(1, H, K, V, dtype=r.dtype), []
    for t in range(r.shape[1]):
        new = k[:, t, :, :, None] * v[:, t, :, None, :]
        outputs.append((K**-0.5 * r[:, t, :, :, None] * (state + u[None, :, :, None] * new)).sum(-2))
        state = state * w[:, t].exp()[..., None] + new
    return torch.stack(outputs, 1)


@case("fla.ops.rwkv6.chunk")
def chunk_rwkv6(m, draw):
    mine = lambda r, k, v, w, u: m.chunk_rwkv6(r, k, v, w, u)[0]  # noqa: E731
    yield from agree(mine, rwkv6_reference, *qkv(draw), log_decay(draw, 1, T, H, K), draw(H, K), precision=CHAIN)


@case("fla.ops.rwkv6.fused_recurrent")
def fused_recurrent_rwkv6(m, draw):
    mine = lambda r, k, v, w, u: m.fused_recurrent_rwkv6(r, k, v, w, u, scale=K**-0.5)[0]  # noqa: E731
    yield from agree(mine, rwkv6_reference, *qkv(draw, 20), log_decay(draw, 1, 20, H, K), draw(H, K))


@case("fla.ops.rwkv7.fused_k_update")
def rwkv7_key_update(m, draw):
    for steps in (30, 600):
        expected = lambda k, a, ka: k + k * (a - 1) * ka  # noqa: E731
        yield from agree(m.fused_k_rwkv7, expected, draw(1, steps, 40), draw.uniform(1, steps, 40), draw(40))


@case("fla.ops.rwkv7.channel_mixing")
def rwkv7_channel_mixing(m, draw):
    def expected(x, previous, mix, key, value):
        shifted = torch.cat([previous[:, None], x[:, :-1]], 1)
        return F.relu((x + (shifted - x) * mix) @ key).square() @ value

    x, previous, mix, key, value = draw(2, 9, 32), draw(2, 32), draw(1, 1, 32), draw(32, 64), draw(64, 32)
    mine = m.channel_mixing_rwkv7(x, previous, mix, key, value, False)[0]
    yield "result", mine, expected(*(t.double() for t in (x, previous, mix.reshape(32), key, value)))


@case("fla.modules.l2norm")
def l2norm(m, draw):
    for width in (40, 600):
        yield from agree(m.l2norm, lambda x: x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt(), draw(3, 7, width))


@case("fla.modules.layernorm")
def layer_norm(m, draw):
    for rows, width in ((11, 90), (5, 1200)):
        expected = lambda x, w, b, r: F.layer_norm(x + r, x.shape[-1:], w, b, 1e-5)  # noqa: E731
        yield from agree(m.layer_norm, expected, draw(rows, width), draw(width), draw(width), draw(rows, width))


@case("fla.modules.layernorm")
def group_norm(m, draw):
    def expected(x, w, b):
        return F.group_norm(x.reshape(-1, 64), 4, w, b, 1e-5).view_as(x)

    mine = lambda x, w, b: m.group_norm(x, w, b, num_groups=4)  # noqa: E731
    yield from agree(mine, expected, draw(3, 5, 64), draw(64), draw(64))


def rms(x, eps=1e-6):
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt()


@case("fla.modules.fused_norm_gate")
def rms_norm_gated(m, draw):
    for width in (60, 1100):
        mine = lambda x, g, w: m.rms_norm_gated(x, g, w, None)  # noqa: E731
        yield from agree(mine, lambda x, g, w: rms(x) * w * F.silu(g), draw(7, width), draw(7, width), draw(width))


@case("fla.modules.layernorm_gated")
def layer_norm_gated(m, draw):
    mine = lambda x, w, b, z: m.layernorm_fn(x, w, b, z)  # noqa: E731
    expected = lambda x, w, b, z: F.layer_norm(x, (60,), w, b, 1e-6) * F.silu(z)  # noqa: E731
    yield from agree(mine, expected, draw(7, 60), draw(60), draw(60), draw(7, 60))


@case("fla.modules.activations")
def activations(m, draw):
    yield from agree(lambda x: m.logsigmoid(x, 2.0), lambda x: F.logsigmoid(x) / 2, draw(5, 90))
    yield from agree(m.SigmoidFunction.apply, torch.sigmoid, draw(5, 90))
    yield from agree(m.SwishFunction.apply, F.silu, draw(5, 90))
    yield from agree(m.SwiGLUFunction.apply, lambda x, y: F.silu(x) * y, draw(5, 90), draw(5, 90))


@case("fla.modules.rotary")
def rotary(m, draw):
    angle = draw.uniform(30, 16, high=6.0)

    def expected(x):
        a, b = x.chunk(2, -1)
        c, s = angle.double().cos()[:, None], angle.double().sin()[:, None]
        return torch.cat([a * c - b * s, a * s + b * c], -1)

    yield from agree(lambda x: m.rotary_embedding(x, angle.cos(), angle.sin()), expected, draw(2, 30, 3, 32))


@case("fla.modules.fused_cross_entropy")
def cross_entropy(m, draw):
    target = draw.integers(9, high=90)
    mine = lambda x: m.cross_entropy_loss(x, target, label_smoothing=0.1)[0]  # noqa: E731
    expected = lambda x: F.cross_entropy(x, target, reduction="none", label_smoothing=0.1)  # noqa: E731
    yield from agree(mine, expected, draw(9, 90))


@case("fla.modules.fused_linear_cross_entropy")
def linear_cross_entropy(m, draw):
    target = draw.integers(16, high=50)
    mine = lambda x, w: m.fused_linear_cross_entropy_loss(x, target, w, num_chunks=2)  # noqa: E731
    yield from agree(mine, lambda x, w: F.cross_entropy(x @ w.T, target), draw(16, 24), draw(50, 24))


@case("fla.modules.fused_kl_div")
def linear_kl_divergence(m, draw):
    other, weight = draw(16, 24), draw(50, 24)

    def expected(x, w):
        p = (other.double() @ weight.double().T).log_softmax(-1)
        return F.kl_div((x @ w.T).log_softmax(-1), p, reduction="batchmean", log_target=True)

    mine = lambda x, w: m.fused_kl_div_loss(x, other, w, weight)  # noqa: E731
    yield from agree(mine, expected, draw(16, 24), draw(50, 24))


@case("fla.modules.token_shift")
def token_shift(m, draw):
    for steps in (20, 600):
        expected = lambda x: F.pad(x, (0, 0, 1, -1)) - x  # noqa: E731
        yield from agree(m.token_shift, expected, draw(2, steps, 40))


@case("fla.modules.conv.triton.ops")
def causal_convolution(m, draw):
    x, weight, bias = draw(2, 90, 40), draw(40, 4), draw(40)
    padded = F.pad(x.double().mT, (3, 0))
    y = F.conv1d(padded, weight.double()[:, None], bias.double(), groups=40).mT
    yield "result", m.causal_conv1d_fwd(x, weight, bias, None, activation="swish")[0], F.silu(y)


@case("fla.ops.utils.cumsum")
def cumulative_sums(m, draw):
    s = draw(2, 100, 3)
    whole = s.double().cumsum(1)
    yield "scalars", m.chunk_global_cumsum(s), whole
    yield "scalars from the end", m.chunk_global_cumsum(s, reverse=True), s.double().flip(1).cumsum(1).flip(1)
    parts = torch.cat([p.cumsum(1) for p in s.double().split(32, 1)], 1)
    yield "chunks of scalars", m.chunk_local_cumsum(s, 32), parts
    g = draw(2, 100, 3, 24)
    yield "vectors", m.chunk_global_cumsum(g), g.double().cumsum(1)
    yield "chunks of vectors", m.chunk_local_cumsum(g, 32), torch.cat([p.cumsum(1) for p in g.double().split(32, 1)], 1)


@case("fla.ops.utils.matmul")
def matmul(m, draw):
    a, b = draw(70, 40), draw(40, 50)
    yield "matmul", m.matmul(a, b), a.double() @ b.double(), TF32
    x = draw(70, 50)
    yield "addmm", m.addmm(x, a, b), x.double() + a.double() @ b.double(), TF32


@case("fla.ops.utils.softmax")
def softmax(m, draw):
    x, dp = draw(3, 5, 60), draw(3, 5, 60)
    p = x.double().softmax(-1)
    yield "forward", m.softmax_fwd(x), p
    yield "backward", m.softmax_bwd(p.float(), dp), p * (dp - (p * dp).sum(-1, keepdim=True))


@case("fla.ops.utils.logsumexp")
def logsumexp(m, draw):
    x = draw(5, 5000)
    yield "result", m.logsumexp_fwd(x, 0.5), (0.5 * x.double()).logsumexp(-1)


@case("fla.ops.utils.solve_tril")
def inverse_of_triangles(m, draw):
    for size in (16, 32, 64):
        a = 0.3 * draw(1, 2 * size, 2, size)
        i = torch.arange(2 * size) % size
        a = a * (torch.arange(size) < i[:, None])[:, None]
        blocks = a.double().view(2, size, 2, size).transpose(1, 2)
        expected = torch.linalg.inv(torch.eye(size).double() + blocks).transpose(1, 2).reshape(a.shape)
        yield f"blocks of {size}", m.solve_tril(a), expected, CHAIN


@case("fla.ops.utils.pooling")
def mean_pooling(m, draw):
    def expected(x):
        return torch.stack([p.mean(1) for p in x.split(32, 1)], 1)

    yield from agree(lambda x: m.mean_pooling(x, 32), expected, draw(2, 80, 2, 24))


@case("fla.ops.utils.pack")
def pack_sequences(m, draw):
    ends = torch.tensor([0, 3, 10])
    x = draw(2, 7, 24)
    packed = torch.cat([x[0, 4:], x[1]])
    yield "packed", m.pack_sequence(x, ends), packed.double()
    padded = x.clone()
    padded[0, :4] = 0
    yield "unpacked", m.unpack_sequence(packed, ends), padded.double()


@case("fla.ops.utils.index")
def position_ids(m, draw):
    ends, ids = torch.tensor([0, 3, 70, 75]), torch.empty(75, dtype=torch.int64)
    m.prepare_position_ids_kernel[(3,)](ids, ends, B=32)
    yield "result", ids, torch.cat([torch.arange(n) for n in (3, 67, 5)])


@case("fla.ops.utils.logcumsumexp")
def logcumsumexp(m, draw):
    s = draw(3, 100, 16)
    z = torch.empty_like(s)
    m.logcumsumexp_fwd_kernel[(3,)](s, z, 100, S=16)
    yield "result", z, s.double().logcumsumexp(1)


@case("fla.ops.gsa.chunk")
def gated_slot_attention(m, draw):
    def expected(q, k, v, s, g):
        scores = linear_attention(q, k, s, gate=g, scale=K**-0.5)
        return linear_attention(scores.softmax(-1), s, v, decay=g, scale=1.0)

    mine = lambda q, k, v, s, g: m.chunk_gsa(q, k, v, s, g)[0]  # noqa: E731
    yield from agree(mine, expected, *qkv(draw), draw(1, T, H, 16), log_decay(draw, 1, T, H, 16), precision=CHAIN)


@case("fla.ops.rwkv4.fused_recurrent")
def rwkv4(m, draw):
    def expected(w, u, k, v):
        w = -w.exp()
        top, bottom, outputs = torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0]), []
        for t in range(k.shape[1]):
            e = (u + k[:, t]).exp()
            outputs.append((top + e * v[:, t]) / (bottom + e))
            top, bottom = (w.exp() * a + k[:, t].exp() * b for a, b in ((top, v[:, t]), (bottom, 1)))
        return torch.stack(outputs, 1)

    state = torch.zeros(2, 3, 1, 40)
    state[:, 2] = -1e38
    mine = lambda w, u, k, v: m.fused_recurrent_rwkv4(w, u, k, v, state)[0]  # noqa: E731
    yield from agree(mine, expected, draw(40), draw(40), draw(2, 20, 40), draw(2, 20, 40))
