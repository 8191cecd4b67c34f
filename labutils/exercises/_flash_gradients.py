"""The gradients of attention: correct, their allowed error, and what common mistakes compute."""

import math

import torch

from ..spec.exercise import KnownMistake
from ._attention import by_heads, combined, heads_of_keys, scores, size_of_scores, stored, visible

TILE, STEP = 32, 16
"""In the launchers, for small arrays: rows that a program owns, and rows of one iteration of its loop."""

LN2 = math.log(2)


# --- references ----------------------------------------------------------------------------------------------------


def _of_group(x, heads: int):
    """Sum over the query heads that share a key head: (H, N, D) to (HK, N, D)."""
    return x.unflatten(0, (heads, -1)).sum(1)


def _weights(q, k, lse, causal, shift=0, scale=None):
    s = scores(q, k, False, scale)
    P = torch.exp(s - lse[..., None])
    return torch.where(visible(s, shift), P, 0.0) if causal else P


@by_heads
def gradients(q, k, v, dout, lse, delta, causal, P=None, dS=None, scale=None):
    """dq, dk and dv; known mistakes pass their own `P` and `dS`."""
    P = _weights(q, k, lse, causal) if P is None else P
    dP = dout @ heads_of_keys(v, len(q)).mT
    dS = P * (dP - delta[..., None]) if dS is None else dS
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return {
        "dq": scale * dS @ heads_of_keys(k, len(q)),
        "dk": _of_group(scale * dS.mT @ q, len(k)),
        "dv": _of_group(P.mT @ dout, len(k)),
    }


@by_heads
def magnitude(q, k, v, dout, lse, delta, causal):
    """M of the error model: errors of the scores act on P and dS in proportion, P and dS are rounded once each."""
    scale, P = q.shape[-1] ** -0.5, _weights(q, k, lse, causal)
    vs, ks = heads_of_keys(v, len(q)), heads_of_keys(k, len(q))
    summed, rounded = size_of_scores(q, k, scale)
    u, n = stored(q, k, v, dout), _terms_of(q, k)
    dP, of_dP = dout @ vs.mT, dout.abs() @ vs.abs().mT
    exact, more = 1 + summed + lse.abs()[..., None], u * (2 + rounded)
    of_P = combined(n, P * exact, P * more)
    dS = (P * (dP - delta[..., None])).abs()
    of_dS = combined(n, P * (of_dP + delta.abs()[..., None]) * exact, dS * more)
    return {
        "dq": scale * of_dS @ ks.abs(),
        "dk": _of_group(scale * of_dS.mT @ q.abs(), len(k)),
        "dv": _of_group(of_P.mT @ dout.abs(), len(k)),
    }


def _terms_of(q, k) -> int:
    return max(q.shape[1] * (len(q) // len(k)), k.shape[1]) + q.shape[2]


def terms(sizes) -> int:
    return max(sizes["M"] * (sizes["H"] // sizes["HK"]), sizes["N"]) + sizes["D"]


def only(names, compute):
    def some(**inputs):
        every = compute(**inputs)
        return {n: every[n] for n in names}

    return some


# --- known mistakes of both kernels --------------------------------------------------------------------------------


def _on_diagonal(q, k):
    """Pairs in tiles on the causal diagonal; without a mask, pairs past the last whole tile of keys."""
    return torch.arange(q.shape[1])[:, None] // TILE == torch.arange(k.shape[1]) // TILE


def _of_the_weights(names) -> tuple[KnownMistake, ...]:
    """The weights P are wrong."""

    def of_P(kind, sentence, change):
        def compute(q, k, v, dout, lse, delta, causal):
            return gradients(q, k, v, dout, lse, delta, causal, P=change(q, k, lse, causal))

        return KnownMistake(kind, sentence, only(names, compute))

    return (
        of_P("missing-accumulation", "the diagonal tiles are skipped", lambda q, k, lse, c: (
            _weights(q, k, lse, c) * ~_on_diagonal(q, k)
        )),
        of_P("wrong-formula", "exp of base-2 exponents: with the factor log₂ e, use exp2", lambda q, k, lse, c: (
            _weights(q, k, lse / LN2, c, scale=q.shape[-1] ** -0.5 / LN2)
        )),
        of_P("wrong-formula", "no mask is applied: queries see the keys after their own", lambda q, k, lse, c: (
            _weights(q, k, lse, 0)
        )),
        of_P("off-by-one", "each query also sees the key after its own", lambda q, k, lse, c: (
            _weights(q, k, lse, c, shift=1)
        )),
        of_P("off-by-one", "no query sees its own key: the mask must include the diagonal", lambda q, k, lse, c: (
            _weights(q, k, lse, c, shift=-1)
        )),
        of_P("wrong-formula", "the mask is inverted", lambda q, k, lse, c: (
            _weights(q, k, lse, 0) - (_weights(q, k, lse, c, shift=-1) if c else 0)
        )),
        of_P("wrong-formula", "P is computed from scores without the factor 1 / √D", lambda q, k, lse, c: (
            _weights(q, k, lse, c, scale=1.0)
        )),
        of_P("wrong-formula", "lse is natural: multiply it by log₂ e before exp2", lambda q, k, lse, c: (
            _weights(q, k, LN2 * lse, c)
        )),
        of_P("wrong-formula", "exp2 of natural exponents: scores and lse lack the factor log₂ e", lambda q, k, lse, c: (
            _weights(q, k, LN2 * lse, c, scale=LN2 * q.shape[-1] ** -0.5)
        )),
        of_P("wrong-formula", "P is exp(s) without lse", lambda q, k, lse, c: _weights(q, k, 0 * lse, c)),
        of_P("wrong-formula", "P uses + lse instead of − lse", lambda q, k, lse, c: _weights(q, k, -lse, c)),
    )  # fmt: skip


def _of_the_scores_gradient(names) -> tuple[KnownMistake, ...]:
    """The gradient dS of the scores is wrong."""

    def of_dS(kind, sentence, change):
        def compute(q, k, v, dout, lse, delta, causal):
            P, dP = _weights(q, k, lse, causal), dout @ heads_of_keys(v, len(q)).mT
            return gradients(q, k, v, dout, lse, delta, causal, dS=change(P, dP, delta[..., None]))

        return KnownMistake(kind, sentence, only(names, compute))

    return (
        of_dS("wrong-formula", "{name} lacks delta: dS = P (dP − delta)", lambda P, dP, delta: P * dP),
        of_dS("wrong-formula", "dS uses + delta instead of − delta", lambda P, dP, delta: P * (dP + delta)),
        of_dS("wrong-formula", "delta is subtracted after the product with P", lambda P, dP, delta: P * dP - delta),
        of_dS("wrong-formula", "dS lacks the factor P", lambda P, dP, delta: torch.where(P > 0, dP - delta, 0.0)),
        of_dS("wrong-formula", "dS lacks the factor P, and the mask", lambda P, dP, delta: dP - delta),
    )  # fmt: skip


def _of_the_scale(names) -> tuple[KnownMistake, ...]:
    """The gradients have a wrong factor."""

    def scaled(sentence, factor):
        def compute(q, k, v, dout, lse, delta, causal):
            return gradients(q, k, v, dout, lse, delta, causal, scale=factor(q.shape[-1]))

        return KnownMistake("wrong-formula", sentence, only(names, compute))

    return (
        scaled("{name} lacks the factor 1 / √D of the scores", lambda d: 1.0),
        scaled("{name} has the factor 1 / √D twice", lambda d: 1 / d),
        scaled(
            "{name} includes the factor log₂ e of the kernel's scale: the gradient needs only 1 / √D",
            lambda d: d**-0.5 / LN2,
        ),
    )  # fmt: skip


def known_mistakes(names) -> tuple[KnownMistake, ...]:
    """Mistakes possible in both kernels; only the outputs `names` are compared."""
    return tuple(m for group in (_of_the_weights, _of_the_scores_gradient, _of_the_scale) for m in group(names))


# --- mistakes of one kernel ----------------------------------------------------------------------------------------


def _visible_as(P, causal):
    return visible(P).double() if causal else torch.ones_like(P[0])


def _last_step(q, k, v, dout, lse, delta, causal, of_keys: bool, first=False):
    """The result of a loop that restarts in each iteration: the last visible block of queries, or of keys."""
    P = _weights(q, k, lse, causal)
    M, N = P.shape[1:]
    block = torch.arange(M)[:, None] // STEP if of_keys else torch.arange(N)[None, :] // STEP
    if not of_keys:  # the last block of keys that a program of TILE queries walks over
        end = ((torch.arange(M)[:, None] // TILE + 1) * TILE).clamp(max=N) if causal else torch.full((M, 1), N)
        last = (end - 1) // STEP
    else:
        last = torch.full((1, N), (M - 1) // STEP)
    if first:
        last = torch.arange(N)[None, :] // TILE * TILE // STEP if of_keys and causal else 0 * last
    return torch.where(block == last, P, 0.0)


def with_weights(of_keys, outputs, first=False):
    def compute(q, k, v, dout, lse, delta, causal):
        P = _last_step(q, k, v, dout, lse, delta, causal, of_keys, first)
        return gradients(q, k, v, dout, lse, delta, causal, P=P)

    return only(outputs, compute)


def one_of_group(which):
    """dk and dv of only one query head of each group."""

    def compute(q, k, v, dout, lse, delta, causal):
        group = len(q) // len(k)
        chosen = torch.arange(len(k)) * group + (0 if which == "first" else group - 1)
        every = gradients(*(x[chosen] if n in "qolx" else x for n, x in zip("qkkolx", (q, k, v, dout, lse, delta),
                           strict=True)), causal)  # fmt: skip
        return {"dk": every["dk"], "dv": every["dv"]}

    return compute


def other_heads(names, which):
    """Gradients where query head h belongs to key head `which(h, group, HK)`."""

    def compute(q, k, v, dout, lse, delta, causal):
        chosen = which(torch.arange(len(q)), len(q) // len(k), len(k)).clamp(max=len(k) - 1)
        every = gradients(q, k[chosen], v[chosen], dout, lse, delta, causal)
        for n in ("dk", "dv"):
            every[n] = torch.zeros_like(k).index_add(0, chosen, every[n])
        return {n: every[n] for n in names}

    return compute


def without_weights(q, k, v, dout, lse, delta, causal):
    P = _weights(q, k, lse, causal)
    return {"dv": gradients(q, k, v, dout, lse, delta, causal, P=_visible_as(P, causal).expand_as(P))["dv"]}


def dS_times(q, k, v, x, dout, lse, delta, causal):
    P = _weights(q, k, lse, causal)
    dS = P * (dout @ heads_of_keys(v, len(q)).mT - delta[..., None])
    return q.shape[-1] ** -0.5 * dS @ heads_of_keys(x, len(q))
