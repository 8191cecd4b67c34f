"""Shared by units 17 and 18: attention in float64, and the rounding errors of correct fp16 or bf16 kernels."""

from __future__ import annotations

import functools
import inspect

import torch

from ..spec.precision import ROUND_OFF


def heads_of_keys(x, heads: int):
    """The key or value head of each query head: (HK, N, D) becomes (H, N, D)."""
    return x.repeat_interleave(heads // x.shape[0], 0)


def scores(q, k, causal: bool = False, scale: float | None = None):
    """scale · q kᵀ, with -inf where a query must not see the key: (H, M, N)."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    s = scale * q @ heads_of_keys(k, len(q)).mT
    return s.masked_fill(~visible(s), -torch.inf) if causal else s


def visible(s, shift: int = 0):
    """Which keys of the scores s, (H, M, N), a query of causal attention sees: those up to its own place, `shift` more
    with a shift. (M, N), where s is."""
    M, N = s.shape[1:]
    return torch.arange(N, device=s.device) <= torch.arange(M, device=s.device)[:, None] + shift


def from_scores(s, v):
    """(out, lse) of scores that may hold -inf."""
    return {"out": torch.softmax(s, -1) @ heads_of_keys(v, len(s)), "lse": torch.logsumexp(s, -1)}


LARGE = 2**26
"""Above this many scores, heads are processed one by one: a benchmark's scores would not fit into memory at once."""


def by_heads(of):
    """`of(q, k, …)` for few scores at a time: arrays' first axes are query heads or key heads, those of the results
    too."""
    signature = inspect.signature(of)

    @functools.wraps(of)
    def all_heads(*args, **kwargs):
        given = signature.bind(*args, **kwargs).arguments
        q, k = given["q"], given["k"]
        if len(k) == 1 or len(q) * q.shape[1] * k.shape[1] <= LARGE:
            return of(**given)
        shares = {n: x.chunk(len(k)) for n, x in given.items() if isinstance(x, torch.Tensor)}
        found = [of(**given | {n: x[h] for n, x in shares.items()}) for h in range(len(k))]
        return {name: torch.cat([f[name] for f in found]) for name in found[0]}

    return all_heads


@by_heads
def attention(q, k, v, causal: bool = False):
    return from_scores(scores(q, k, causal), v)


def away(weights, v, out):
    """Σ_j weights_j · |v_j − out_i| for each query i; where that is too large an array, a bound of it."""
    if weights.numel() * v.shape[-1] > LARGE:
        return weights @ v.abs() + weights.sum(-1, keepdim=True) * out.abs()
    return (weights[..., None] * (v[:, None] - out[:, :, None]).abs()).sum(2)


def stored(*arrays) -> float:
    """Unit round-off of the format of these values: bf16 if it represents all of them, else fp16."""
    fits = all(bool((x.to(torch.bfloat16).double() == x).all()) for x in arrays)
    return ROUND_OFF["bfloat16" if fits else "float16"]


def growth(n: int) -> float:
    """Error bound of an fp32 sum of n terms, relative to the sum of their magnitudes."""
    return min(n, 8 * n**0.5) * ROUND_OFF["float32"]


def combined(n: int, summed, rounded):
    """M of the error model for a contract whose operands are fp16: `summed` is multiplied with what sums may lose;
    `rounded` is an error already, of what is stored in the arrays' format on the way."""
    return (growth(n) * summed + rounded) / (growth(n) + 2 * ROUND_OFF["float16"])


def size_of_scores(q, k, scale: float):
    """(sum of the absolute terms of each score, size of its error if q is scaled in its own type).

    Then the scale is rounded, which shifts a whole score, and so is each element of q, which partly cancels.
    """
    k = heads_of_keys(k, len(q))
    summed = scale * q.abs() @ k.abs().mT
    spread = 6 * scale * ((q**2) @ (k**2).mT).sqrt()
    return summed, torch.minimum(summed, spread) + (scale * q @ k.mT).abs()


def terms(sizes) -> int:
    return sizes["N"] + sizes["D"]


@by_heads
def magnitude(q, k, v, causal: bool = False):
    """M of the error model for out and lse.

    Errors of a score move weight between keys: they count with |v_j − out_i|. P is rounded to the stored format before
    it meets V, and q may be rounded after it is scaled.
    """
    s = scores(q, k, causal)
    P, v = torch.softmax(s, -1), heads_of_keys(v, len(q))
    right = {"out": P @ v, "lse": torch.logsumexp(s, -1)}
    summed, rounded = size_of_scores(q, k, q.shape[-1] ** -0.5)
    u, n = stored(q, k, v), k.shape[1] + q.shape[-1]
    moved = torch.clamp(P * torch.expm1((u * rounded).clamp(max=50)), max=1)
    at_least = torch.maximum(P, 2.0**-14 * P.amax(-1, keepdim=True))  # fp16 has no finer steps below
    return {
        "out": combined(
            n,
            P @ v.abs() + away(2 * P * summed, v, right["out"]),
            2 * u * at_least @ v.abs() + away(moved, v, right["out"]),
        ),
        "lse": combined(n, right["lse"].abs() + 1 + (P * summed).sum(-1), u * (P * rounded).sum(-1)),
    }
