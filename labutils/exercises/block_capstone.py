"""Unit 24, capstone: a transformer block's forward pass, its error model by perturbation, and common mistakes."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..spec.exercise import Bound, Case, Contract, Cost, KernelExercise, KnownMistake, Points, array, out, register
from ..spec.precision import ROUND_OFF
from ._attention import stored

UNIT = "24_capstone"
EPS = 1e-6
DRAWS, MARGIN = 8, 6
"""Perturbed blocks of which the error model takes the root mean square, and how many of these an error may be."""

# --- the block in float64 --------------------------------------------------------------------------------------------


def normalized(x, eps: float = EPS):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)


def interleaved(x, cos, sin):
    """x (T, heads, D) with pairs (2i, 2i + 1) of token t rotated by its angles, row t of cos and sin (T, D / 2)."""
    a, b = x[..., 0::2], x[..., 1::2]
    cos, sin = cos[:, None], sin[:, None]
    return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)


def half_split(x, cos, sin):
    """The same with pairs (i, i + D / 2)."""
    a, b = x.chunk(2, -1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def attend(q, k, v, causal: bool = True, scale: float | None = None, neighbors: bool = True):
    """Attention of one sequence: q (T, H, D), k and v (T, HK, D). `neighbors`: query heads of a group are adjacent."""
    group, T = q.shape[1] // k.shape[1], len(q)
    if neighbors:
        k, v = (t.repeat_interleave(group, 1) for t in (k, v))
    else:
        k, v = (t.repeat(1, group, 1) for t in (k, v))
    s = (q.shape[2] ** -0.5 if scale is None else scale) * torch.einsum("qhd,khd->hqk", q, k)
    if causal:
        s = s.masked_fill(torch.ones(T, T, dtype=torch.bool, device=s.device).triu(1), -torch.inf)
    return torch.einsum("hqk,khd->qhd", torch.softmax(s, -1), v)


def gated(z, act=torch.nn.functional.silu):
    """silu(gate) · up of interleaved columns: gate of column i is column 2i, up is column 2i + 1."""
    return act(z[:, 0::2]) * z[:, 1::2]


def kept(name: str, value):
    return value


def block(
    x, qkv, cos, sin, proj, gate_up, down, *, between: Callable = kept, norms=(normalized, normalized),
    rotate=interleaved, rotated=("q", "k"), attention=attend, gate=gated, residuals=("x", "y"),
):  # fmt: skip
    """The block's result (S, C). `between(name, value)` sees each intermediate result; the rest are for mistakes."""
    T, D, HD = len(cos), 2 * cos.shape[1], proj.shape[1]
    heads, key_heads = HD // D, (len(qkv) - HD) // (2 * D)
    z = between("qkv", between("norm1", norms[0](x)) @ qkv.T)
    mixed = []
    for sequence in z.split(T):
        parts = dict(
            zip("qkv", sequence.view(T, -1, D).split((heads, key_heads, key_heads), 1), strict=True),
        )
        parts |= {name: between(name, rotate(parts[name], cos, sin)) for name in rotated}
        mixed.append(attention(parts["q"], parts["k"], parts["v"]).flatten(1))
    add = {"x": x, "": 0}
    y = add["y"] = between("y", between("proj", between("attention", torch.cat(mixed)) @ proj.T) + add[residuals[0]])
    hidden = between("hidden", gate(between("gate_up", between("norm2", norms[1](y)) @ gate_up.T)))
    return between("down", hidden @ down.T) + add[residuals[1]]


def magnitude(x, qkv, cos, sin, proj, gate_up, down):
    """M of the error model. A correct block may round each intermediate result to the arrays' format.

    How much these roundings change the result is measured: the float64 block runs with every intermediate value changed
    by the unit round-off, up or down at random. M is a multiple of the change's root mean square, of the element and of
    its row, divided by the factor that the contract multiplies with.
    """
    arrays = (x, qkv, cos, sin, proj, gate_up, down)
    u, right = stored(x, qkv, proj, gate_up, down), block(*arrays)
    g = torch.Generator(x.device).manual_seed(24)

    def perturbed(name, value):
        signs = torch.randint(0, 2, value.shape, generator=g, device=value.device) * 2 - 1
        return value * (1 + u * signs)

    square = sum((block(*arrays, between=perturbed) - right) ** 2 for _ in range(DRAWS)) / DRAWS
    return MARGIN * (square + square.mean(-1, keepdim=True)).sqrt() / (2 * ROUND_OFF["float16"])


# --- common mistakes -------------------------------------------------------------------------------------------------


def _with(**changes):
    return lambda **inputs: block(**inputs, **changes)


def _negative(x, cos, sin):
    return interleaved(x, cos, -sin)


def _next_token(x, cos, sin):
    return interleaved(x, cos.roll(-1, 0), sin.roll(-1, 0))


def _unrotated(x, cos, sin):
    return x


def _factor_squared(x):
    return x / ((x * x).mean(-1, keepdim=True) + EPS)


def _by_sum(x):
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + EPS)


def _none(x):
    return x


def _swapped(z):
    return z[:, 0::2] * torch.nn.functional.silu(z[:, 1::2])


def _halves(z):
    gate, up = z.chunk(2, 1)
    return torch.nn.functional.silu(gate) * up


def _mistake(sentence: str, **changes) -> KnownMistake:
    return KnownMistake("wrong-formula", sentence, _with(**changes))


KNOWN_MISTAKES = (
    _mistake(
        "the first norm is missing: multiply the rows of the product x · qkvᵀ by their factors",
        norms=(_none, normalized),
    ),
    _mistake(
        "the second norm is missing: multiply the rows of the product by the factors of y", norms=(normalized, _none)
    ),
    _mistake("both norms are missing: multiply the rows of the product by their factors", norms=(_none, _none)),
    _mistake("rows are divided by their mean square: take its root", norms=(_factor_squared, _factor_squared)),
    _mistake("rows are divided by the root of the sum of squares, not of the mean", norms=(_by_sum, _by_sum)),
    _mistake("q and k are not rotated", rotate=_unrotated),
    _mistake("k is not rotated", rotated=("q",)),
    _mistake("q is not rotated", rotated=("k",)),
    _mistake("v is rotated, too: only columns of q and k have an angle", rotated=("q", "k", "v")),
    _mistake("the rotation has the wrong direction: a · cos − b · sin and b · cos + a · sin", rotate=_negative),
    _mistake("pairs are i and i + D/2: in this block they are neighbors, 2i and 2i + 1", rotate=half_split),
    _mistake("angles belong to the next token", rotate=_next_token),
    _mistake("queries see later keys", attention=lambda q, k, v: attend(q, k, v, causal=False)),
    _mistake("scores are not divided by √D", attention=lambda q, k, v: attend(q, k, v, scale=1.0)),
    _mistake(
        "query head h reads key head h % HK: it must read h // (H / HK)",
        attention=lambda q, k, v: attend(q, k, v, neighbors=False),
    ),
    _mistake("gate and up are swapped: the gate has the even columns", gate=_swapped),
    _mistake("gate and up are halves of the columns: in this block they alternate", gate=_halves),
    _mistake("the gate is sigmoid(gate), not silu(gate)", gate=lambda z: gated(z, torch.sigmoid)),
    _mistake("the gate has no activation function", gate=lambda z: gated(z, _none)),
    _mistake("x is not added after attention", residuals=("", "y")),
    _mistake("y is not added at the end", residuals=("x", "")),
    _mistake("x is added at the end: add y", residuals=("x", "x")),
)

# --- the exercise ----------------------------------------------------------------------------------------------------


def sizes_of(B: int, T: int, C: int, H: int, HK: int, D: int, F: int) -> dict[str, int]:
    return {"S": B * T, "T": T, "C": C, "P": D // 2, "HD": H * D, "QKV": (H + 2 * HK) * D, "F": F, "F2": 2 * F}


LLAMA = {"B": 8, "T": 2048, "C": 4096, "H": 32, "HK": 8, "D": 128, "F": 14_336}
"""The benchmark: a block of Llama 3 8B (arXiv:2407.21783, table 3)."""


def _weights(rows: str, columns: str) -> Callable:
    """Weights that keep the size of what they multiply."""

    def fill(sizes, g):
        return torch.randn(sizes[rows], sizes[columns], generator=g, dtype=torch.float64) * sizes[columns] ** -0.5

    return fill


def _angles(function: Callable) -> Callable:
    """Row t belongs to position t + 5, since position 0 would not be rotated at all."""

    def fill(sizes, g):
        pairs = torch.arange(sizes["P"], dtype=torch.float64)
        return function((torch.arange(sizes["T"]) + 5)[:, None] * 10_000.0 ** (-pairs / sizes["P"]))

    return fill


def _weight(rows: str, columns: str):
    return array(rows, columns, fill=_weights(rows, columns))


def cost(sizes, item: int) -> Cost:
    S, T, C, P, HD, QKV, F = (sizes[n] for n in ("S", "T", "C", "P", "HD", "QKV", "F"))
    weights = C * QKV + HD * C + 3 * F * C
    return Cost(item * (S * C + weights) + 8 * T * P, item * S * C, 2 * S * weights + 2 * S * T * HD)


def library(x, qkv, cos, sin, proj, gate_up, down):
    """The block in PyTorch; the tables for its half-split rotation are made from interleaved pairs by stacking."""
    F = torch.nn.functional
    T, D, HD = len(cos), 2 * cos.shape[1], proj.shape[1]
    heads, key_heads = HD // D, (len(qkv) - HD) // (2 * D)
    z = F.rms_norm(x, (x.shape[1],), eps=EPS) @ qkv.T
    q, k, v = z.view(-1, T, len(qkv) // D, D).split((heads, key_heads, key_heads), 2)

    def rotate(t):
        wide = t.to(torch.promote_types(t.dtype, torch.float32))
        a, b = wide[..., 0::2], wide[..., 1::2]
        c, s = cos[:, None], sin[:, None]
        return torch.stack([a * c - b * s, b * c + a * s], -1).flatten(-2).to(t.dtype).transpose(1, 2)

    mixed = F.scaled_dot_product_attention(rotate(q), rotate(k), v.transpose(1, 2), is_causal=True, enable_gqa=True)
    y = x + mixed.transpose(1, 2).reshape(len(x), HD) @ proj.T
    gate, up = (F.rms_norm(y, (y.shape[1],), eps=EPS) @ gate_up.T).view(len(y), -1, 2).unbind(-1)
    return y + (F.silu(gate) * up) @ down.T


def _of(name: str, B: int, T: int, C: int, H: int, HK: int, D: int, F: int, *arguments, **options) -> Case:
    return Case(
        f"{name}{B} × {T} tokens, width {C}, {H} + {HK} heads of {D}, {F} hidden",
        sizes_of(B, T, C, H, HK, D, F), *arguments, **options,
    )  # fmt: skip


LARGEST = _of("many tokens, ", 2, 100, 96, 4, 2, 16, 128)
"""The case of which stores are counted: hidden cases are smaller."""


def stored_sectors(sizes, item: int = 2, sector: int = 32) -> int:
    """Sectors of the results that the plan of five kernels stores, and a sector for each factor."""
    columns = sizes["QKV"] + sizes["HD"] + sizes["F"] + 2 * sizes["C"]
    return sizes["S"] * (columns * item // sector + 2)


MOST_SECTORS = round(1.02 * stored_sectors(LARGEST.sizes))
"""A copy of x, or a product that is stored before its epilogue, is at least 15 % more."""


def _draw(rng) -> dict[str, int]:
    HK, group = rng.choice([1, 2]), rng.choice([1, 2, 3])
    T, B = rng.randrange(2, 48), rng.randrange(1, 3)
    return sizes_of(B, T, 8 * rng.randrange(3, 12), HK * group, HK, 16, 8 * rng.randrange(2, 12))


register(
    KernelExercise(
        id=f"{UNIT}/block",
        title="The forward pass of a transformer block",
        entry="block",
        points=Points(
            correct=6,
            bounds=(Bound("sectors stored", "global_store_sectors", at_most=MOST_SECTORS, points=2),),
        ),
        arguments={
            "x": array("S", "C"),
            "qkv": _weight("QKV", "C"),
            "cos": array("T", "P", fill=_angles(torch.cos), dtype="float32"),
            "sin": array("T", "P", fill=_angles(torch.sin), dtype="float32"),
            "proj": _weight("C", "HD"),
            "gate_up": _weight("F2", "C"),
            "down": _weight("C", "F"),
            "out": out("S", "C"),
        },
        reference=block,
        magnitude=magnitude,
        contract=Contract(dtype="float16", operands="float16", terms=1),
        cost=cost,
        cases=(
            _of("", 1, 7, 32, 1, 1, 16, 16),
            _of("", 2, 32, 64, 2, 1, 16, 32),
            _of("", 2, 33, 48, 4, 2, 16, 40),
            _of("", 3, 5, 40, 3, 1, 16, 24, "position"),
            _of("values of all sizes, ", 1, 20, 64, 2, 2, 64, 48, "wide"),
            _of("bf16, ", 2, 17, 32, 4, 1, 16, 32, dtype="bfloat16"),
            _of("padded rows, ", 2, 19, 40, 2, 1, 16, 40, layout="padded"),
            _of("not aligned, ", 1, 18, 40, 2, 1, 16, 24, layout="offset"),
            LARGEST,
        ),
        draw=_draw,
        tiny=_of("", 1, 2, 8, 1, 1, 16, 8),
        bench=sizes_of(**LLAMA),
        library=library,
        known_mistakes=KNOWN_MISTAKES,
    )
)
