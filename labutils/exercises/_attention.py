"""What units 17 and 18 share: attention in float64, and the errors that honest kernels of fp16 or bf16 arrays make."""

from __future__ import annotations

import torch

from ..precision import ROUND_OFF


def heads_of_keys(x, heads: int):
    """The key or value head of each query head: (HK, N, D) to (H, N, D)."""
    return x.repeat_interleave(heads // x.shape[0], 0)


def scores(q, k, causal: bool = False, scale: float | None = None):
    """scale · q kᵀ, -inf where a query must not see the key: (H, M, N)."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    s = scale * q @ heads_of_keys(k, len(q)).mT
    return s.masked_fill(~visible(*s.shape[1:]), -torch.inf) if causal else s


def visible(M: int, N: int, shift: int = 0):
    """Which keys a query of causal attention sees: those up to its own place, `shift` more with a shift."""
    return torch.arange(N) <= torch.arange(M)[:, None] + shift


def from_scores(s, v):
    """(out, lse) of scores that may hold -inf."""
    return {"out": torch.softmax(s, -1) @ heads_of_keys(v, len(s)), "lse": torch.logsumexp(s, -1)}


def attention(q, k, v, causal: bool = False):
    return from_scores(scores(q, k, causal), v)


def stored(*arrays) -> float:
    """Unit round-off of the format that these values lie in: bf16 if they all fit into it, else fp16."""
    fits = all(bool((x.to(torch.bfloat16).double() == x).all()) for x in arrays)
    return ROUND_OFF["bfloat16" if fits else "float16"]


def growth(n: int) -> float:
    """What the error model multiplies M with for fp32 sums of n terms."""
    return min(n, 8 * n**0.5) * ROUND_OFF["float32"]


def size_of_scores(q, k, scale: float):
    """(sum of the absolute terms of each score, size of a score's error if q is rounded once more)."""
    k = heads_of_keys(k, len(q))
    return scale * q.abs() @ k.abs().mT, 3 * scale * ((q**2) @ (k**2).mT).sqrt()


def terms(sizes) -> int:
    return sizes["N"] + sizes["D"]


def magnitude(q, k, v, causal: bool = False):
    """M of the error model for out and lse.

    Errors of a score move weight between keys: they count with |v_j − out_i|. P is rounded to the stored format before
    it meets V, and q may be rounded after it is scaled; both are written in units of what fp32 sums may lose.
    """
    s = scores(q, k, causal)
    P, v = torch.softmax(s, -1), heads_of_keys(v, len(q))
    right = {"out": P @ v, "lse": torch.logsumexp(s, -1)}
    summed, rounded = size_of_scores(q, k, q.shape[-1] ** -0.5)
    u, g = stored(q, k, v), growth(k.shape[1] + q.shape[-1])
    moved = torch.clamp(P * torch.expm1((u * rounded).clamp(max=50)), max=1) / g + 2 * P * summed
    away = (v[:, None] - right["out"][:, :, None]).abs()
    at_least = torch.maximum(P, 2.0**-14 * P.amax(-1, keepdim=True))  # fp16 has no finer steps below
    out = P @ v.abs() + 2 * u / g * at_least @ v.abs() + (moved[..., None] * away).sum(2)
    lse = right["lse"].abs() + 1 + (P * (summed + u / g * rounded)).sum(-1)
    return {"out": out, "lse": lse}
