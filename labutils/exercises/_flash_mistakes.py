"""Common mistakes in attention kernels, as functions of their inputs."""

import math
from dataclasses import replace
from functools import partial

import torch

from ..spec.exercise import KnownMistake
from ._attention import attention, from_scores, heads_of_keys, scores, visible

TILE_M, TILE_N = 32, 16
"""Queries and keys of a tile in the launchers, where the arrays are small."""

PAST_THE_END = "past the end"


# --- of every kernel -----------------------------------------------------------------------------------------------


def _tile_numbers(n: int, size: int):
    return torch.arange(n) // size


def _walk(s, v, rescale_sum=True, rescale_acc=True, over: bool = False):
    """The result of a loop over tiles of TILE_N keys that forgets to rescale, or divides instead of multiplying."""
    v, N = heads_of_keys(v, len(s)), s.shape[-1]
    m = torch.full(s.shape[:2], -torch.inf, dtype=s.dtype)
    l, acc = torch.zeros_like(m), torch.zeros(*s.shape[:2], v.shape[-1], dtype=s.dtype)  # noqa: E741
    for start in range(0, N, TILE_N):
        part = s[..., start : start + TILE_N]
        new = torch.maximum(m, part.amax(-1))
        safe = torch.where(new == -torch.inf, 0.0, new)
        p = torch.exp(part - safe[..., None])
        factor = torch.where(m == -torch.inf, 0.0, torch.exp((safe - m) if over else (m - safe)))
        l = l * (factor if rescale_sum else 1) + p.sum(-1)  # noqa: E741
        acc = acc * (factor[..., None] if rescale_acc else 1) + p @ v[:, start : start + TILE_N]
        m = new
    return {"out": acc / l[..., None], "lse": m + torch.log(l)}


def _tiles(s, v, which):
    """Attention to the keys of some tiles only; `which` maps (tile numbers, last tile of each query)."""
    tile = _tile_numbers(s.shape[-1], TILE_N)
    seen = s > -torch.inf
    last = torch.where(seen, tile, -1).amax(-1, keepdim=True)
    return from_scores(s.masked_fill(~which(tile, last), -torch.inf), v)


def _with_zeros(s, v, most=TILE_N):
    """Keys past the end, up to the end of the tile, included with score 0 and value 0."""
    extra = min(-s.shape[-1] % TILE_N, most)
    padded = torch.nn.functional.pad(s, (0, extra))
    return from_scores(padded, torch.nn.functional.pad(v, (0, 0, 0, extra)))


def _without_last(s):
    return s.masked_fill(torch.arange(s.shape[-1]) == s.shape[-1] - 1, -torch.inf)


def _in_last_tile(s):
    """Which of the scores belong to the last tile of keys that their query sees: (H, M, N)."""
    tile = _tile_numbers(s.shape[-1], TILE_N)
    return tile == torch.where(s > -torch.inf, tile, -1).amax(-1, keepdim=True)


def _last_of_all(s, v):
    return torch.where(_in_last_tile(s), torch.softmax(s, -1), 0.0) @ heads_of_keys(v, len(s))


def _last_maximum(s):
    return s.masked_fill(~_in_last_tile(s), -torch.inf).amax(-1)


def _of_scores(scored, kind: str, sentence: str, compute) -> KnownMistake:
    """`compute(s, v)` is the wrong result for the scores s."""
    return KnownMistake(kind, sentence, lambda q, k, v, **more: compute(scored(q, k, **more), v))


def _of_the_scale(scored) -> tuple[KnownMistake, ...]:
    """The scores have a wrong factor."""

    def scaled(kind, sentence, factor):
        def compute(q, k, v, **more):
            return from_scores(scored(q, k, scale=factor(q.shape[-1]), **more), v)

        return KnownMistake(kind, sentence, compute)

    def natural(s, v):
        exponents = s / math.log(2)
        m = exponents.amax(-1)
        p = torch.exp(exponents - m[..., None])
        l = p.sum(-1)  # noqa: E741
        return {"out": p / l[..., None] @ heads_of_keys(v, len(s)), "lse": (m + torch.log2(l)) * math.log(2)}

    return (
        _of_scores(
            scored,
            "wrong-formula",
            "exp stands where exp2 belongs: the exponents already hold the factor log₂ e",
            natural,
        ),
        scaled(
            "wrong-formula",
            "the scores are multiplied by the factor log₂ e / √D twice",
            lambda d: 1 / (d * math.log(2)),
        ),
        scaled("wrong-formula", "the scores are not scaled: {name} uses q kᵀ instead of q kᵀ / √D", lambda d: 1.0),
        scaled("wrong-formula", "the scores are divided by D, not by √D", lambda d: 1 / d),
        scaled(
            "wrong-formula",
            "{name} matches scores without the factor log₂ e: exp(x) is exp2(x · log₂ e)",
            lambda d: math.log(2) * d**-0.5,
        ),
        scaled("wrong-formula", "the factor log₂ e is applied twice", lambda d: d**-0.5 / math.log(2)),
    )


def _of_the_running_sums(scored) -> tuple[KnownMistake, ...]:
    """The loop does not rescale its accumulators, or rescales them in the wrong direction."""
    some = partial(_of_scores, scored)
    return (
        some(
            "wrong-formula",
            "{name} is not rescaled when the maximum grows: multiply acc by the same factor as l",
            lambda s, v: {"out": _walk(s, v, rescale_acc=False)["out"]},
        ),
        some(
            "wrong-formula",
            "the running sum l is not rescaled when the maximum grows",
            lambda s, v: _walk(s, v, rescale_sum=False),
        ),
        some(
            "wrong-formula",
            "neither l nor acc is rescaled when the maximum grows",
            lambda s, v: _walk(s, v, rescale_sum=False, rescale_acc=False),
        ),
        some(
            "wrong-formula",
            "l and acc are divided instead of multiplied: the factor is exp2(m − m_new)",
            lambda s, v: _walk(s, v, over=True),
        ),
    )


def _of_the_end(scored) -> tuple[KnownMistake, ...]:
    """Keys past the end are included, or the last key is not."""
    some = partial(_of_scores, scored)
    return (
        replace(
            some("padded-lanes", f"keys {PAST_THE_END} are included, with a score of 0: it must be -inf", _with_zeros),
            advice="Keys past the end are loaded as 0, so their scores are 0, and a score of 0 has a weight: set these "
            "scores to -inf after the product, before their maximum is taken.",
        ),
        replace(
            some("padded-lanes", f"one key {PAST_THE_END} is included", lambda s, v: _with_zeros(s, v, 1)),
            advice="Look at the condition that sets scores to -inf: which is the last key that it lets through?",
        ),
        some("off-by-one", "the last key is left out", lambda s, v: from_scores(_without_last(s), v)),
    )


def _of_the_tiles(scored) -> tuple[KnownMistake, ...]:
    """Some tiles of keys, or the division by l, are missing."""
    some = partial(_of_scores, scored)
    return (
        some(
            "missing-accumulation",
            "{name} holds only the last tile of keys: acc restarts at each tile",
            lambda s, v: _tiles(s, v, lambda tile, last: tile == last),
        ),
        some(
            "missing-accumulation",
            "{name} holds only the first tile of keys",
            lambda s, v: _tiles(s, v, lambda tile, last: tile == 0),
        ),
        some(
            "missing-accumulation",
            "acc holds only the last tile of keys, but l holds all of them",
            lambda s, v: {"out": _last_of_all(s, v)},
        ),
        some(
            "missing-accumulation",
            "the last tile of keys is missing",
            lambda s, v: _tiles(s, v, lambda tile, last: (tile < last) | (last == 0)),
        ),
        some(
            "wrong-formula",
            "{name} is not divided by l, the sum of the weights",
            lambda s, v: {"out": torch.exp(s - s.amax(-1, keepdim=True)) @ heads_of_keys(v, len(s))},
        ),
    )


def _of_lse(scored) -> tuple[KnownMistake, ...]:
    """The output is right, but lse is not."""

    def of_lse(sentence, compute):
        def lse(q, k, v, **more):
            s = scored(q, k, **more)
            return {"lse": compute(s, s.amax(-1), torch.logsumexp(s, -1))}

        return KnownMistake("wrong-formula", sentence, lse)

    def unscaled(sentence, factor):
        def lse(q, k, v, **more):
            s = scored(q, k, **more)
            m = s.amax(-1)
            return {"lse": torch.logsumexp(s, -1) - m + factor * m * math.sqrt(q.shape[-1])}

        return KnownMistake("wrong-formula", sentence, lse)

    return (
        of_lse("{name} is in base 2: multiply it by ln 2", lambda s, m, lse: lse / math.log(2)),
        of_lse("{name} is log l: the maximum is missing", lambda s, m, lse: lse - m),
        unscaled("{name} takes the maximum of scores without their scale", 1.0),
        unscaled("{name} takes the maximum of scores without their scale, in base 2", math.log(2)),
        of_lse("{name} is only the maximum", lambda s, m, lse: m),
        of_lse("{name} is m + log l with m still in base 2", lambda s, m, lse: m / math.log(2) + lse - m),
        of_lse(
            "{name} is m + log l with m still in base 2, and m is the maximum of the last tile alone",
            lambda s, m, lse: _last_maximum(s) / math.log(2) + lse - _last_maximum(s),
        ),
        of_lse("{name} mixes bases: m is natural, log l is base 2", lambda s, m, lse: m + (lse - m) / math.log(2)),
        of_lse("{name} is m − log l", lambda s, m, lse: 2 * m - lse),
        of_lse("{name} is the sum l itself", lambda s, m, lse: torch.exp(lse - m)),
        of_lse("{name} is m + l: the logarithm is missing", lambda s, m, lse: m + torch.exp(lse - m)),
    )


def known_mistakes(scored) -> tuple[KnownMistake, ...]:
    """Mistakes common to all levels; `scored(q, k, scale=…, **more)` gives the scores that this level requires."""
    groups = (_of_the_scale, _of_the_running_sums, _of_the_end, _of_the_tiles, _of_lse)
    return tuple(mistake for group in groups for mistake in group(scored))


# --- of shared key heads -------------------------------------------------------------------------------------------


def _other_heads(which, causal=False):
    """Attention with another key head for each query head."""

    def compute(q, k, v, **more):
        chosen = which(torch.arange(len(q)), len(q) // len(k), len(k))
        exists = (chosen < len(k))[:, None, None]
        chosen = chosen.clamp(max=len(k) - 1)
        s = scores(q, k[chosen], causal and bool(more.get("causal", 0)))
        return {
            n: torch.where(exists if x.dim() == 3 else exists[..., 0], x, torch.nan)
            for n, x in from_scores(s, v[chosen]).items()
        }

    return compute


GROUPS = (
    KnownMistake(
        "wrong-formula",
        "query head h reads key head h % HK: the heads of a group are adjacent, so it is h // group",
        _other_heads(lambda h, group, count: h % count, causal=True),
    ),
    KnownMistake(
        "wrong-formula", "query head h reads key head h", _other_heads(lambda h, group, count: h, causal=True)
    ),
    KnownMistake(
        "wrong-formula", "every query head reads key head 0", _other_heads(lambda h, group, count: 0 * h, causal=True)
    ),
)


# --- of the causal mask --------------------------------------------------------------------------------------------


def masked_scores(q, k, causal=1, shift=0, scale=None):
    """The scores of causal attention, or unmasked ones where `causal` is 0."""
    s = scores(q, k, False, scale)
    return s.masked_fill(~visible(s, shift), -torch.inf) if causal else s


def _shifted(shift):
    def compute(q, k, v, causal):
        return from_scores(masked_scores(q, k, causal, shift), v)

    return compute


def _by_tiles(q, k, v, causal, past_the_end=0):
    """Whole tiles are skipped correctly, but the diagonal tiles have no mask; nor have keys past the end, with a score
    of 0, up to a multiple of `past_the_end` keys if it is given."""
    s = scores(q, k)
    M, N = s.shape[1:]
    end = (torch.arange(M) // TILE_M + 1) * TILE_M  # keys of the program's tiles, up to its last query
    if past_the_end and causal:
        more = -N % past_the_end
        s, v = torch.nn.functional.pad(s, (0, more)), torch.nn.functional.pad(v, (0, 0, 0, more))
    seen = torch.arange(s.shape[-1]) < end[:, None]
    return from_scores(s.masked_fill(~seen, -torch.inf) if causal else s, v)


def _only_full(q, k, v, causal):
    """The diagonal tiles are skipped; queries of the first block see nothing."""
    s = scores(q, k)
    M, N = s.shape[1:]
    end = torch.arange(M) // TILE_M * TILE_M if causal else torch.full((M,), N // TILE_N * TILE_N)
    return from_scores(s.masked_fill(torch.arange(N) >= end[:, None], -torch.inf), v)


def _backwards(q, k, v, causal):
    s = scores(q, k)
    seen = torch.arange(s.shape[2]) >= torch.arange(s.shape[1])[:, None]
    return from_scores(s.masked_fill(~seen, -torch.inf) if causal else s, v)


CAUSAL = (
    KnownMistake(
        "wrong-formula",
        "no mask is applied: each query also sees the keys after its own",
        lambda q, k, v, causal: attention(q, k, v),
    ),
    KnownMistake("off-by-one", "each query also sees the key after its own", _shifted(1)),
    KnownMistake("off-by-one", "no query sees its own key: the mask must include the diagonal", _shifted(-1)),
    KnownMistake(
        "wrong-formula",
        "the diagonal tiles have no mask: queries see all keys of their last tile",
        _by_tiles,
    ),
    *(
        KnownMistake(
            "wrong-formula",
            "the diagonal tiles have no mask: queries see all keys of their last tile, and keys past the end with a "
            "score of 0",
            partial(_by_tiles, past_the_end=size),
        )
        for size in (TILE_M, TILE_N)
    ),
    KnownMistake("missing-accumulation", "the tiles that need a mask are skipped", _only_full),
    KnownMistake(
        "wrong-formula",
        "the mask is inverted: queries see their own key and the keys after it",
        _backwards,
    ),
)
