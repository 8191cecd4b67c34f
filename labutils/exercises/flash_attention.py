"""Unit 17: attention in tiles. Arrays are fp16 or bf16, sums fp32; heads of all sequences are counted along one axis.

Query heads are H, heads of keys and values HK; H is a multiple of HK, and heads h·G … h·G + G − 1 share key head h.
"""

import math

import torch

from ..spec.exercise import (
    Case,
    Contract,
    Cost,
    KernelExercise,
    KnownMistake,
    Number,
    PlainExercise,
    Points,
    array,
    out,
    register,
)
from ._attention import attention, from_scores, heads_of_keys, magnitude, scores, terms, visible

TILE_M, TILE_N = 32, 16
"""Queries and keys of a tile in the launchers, where the arrays are small."""

# --- ledgers -------------------------------------------------------------------------------------------------------


def _sizes_of(**sizes):
    return sizes


def _explain_scores(sizes, yours, expected) -> str | None:
    heads, N, item = sizes["heads"], sizes["N"], sizes["itemsize"]
    said = {
        heads * N * N: "That counts elements. Each has `itemsize` bytes.",
        N * N * item: "That is one head.",
        2
        * heads
        * N
        * N
        * item: "Only the scores are asked for; the weights after the softmax would be as many again.",
        heads * N * item: "Every query meets every key: N scores for each of N queries.",
        heads * N * (N + 1) // 2 * item: "Without a mask every query has a score for every key.",
    }
    return said.get(yours)


register(
    PlainExercise(
        id="17_flash_attention/score_bytes",
        title="Bytes of all scores",
        entry="score_bytes",
        points=Points(correct=1),
        reference=lambda heads, N, itemsize: heads * N * N * itemsize,
        rtol=0.0,
        explain=_explain_scores,
        cases=(
            Case("one head, 4096 keys, fp16", _sizes_of(heads=1, N=4096, itemsize=2)),
            Case("one head, 131 072 keys, fp16", _sizes_of(heads=1, N=131_072, itemsize=2)),
            Case("128 heads, 4096 keys, fp32", _sizes_of(heads=128, N=4096, itemsize=4)),
            Case("a single key", _sizes_of(heads=3, N=1, itemsize=2)),
        ),
        draw=lambda rng: {
            "heads": rng.randrange(1, 200),
            "N": rng.randrange(1, 200_000),
            "itemsize": rng.choice([2, 4]),
        },
    )
)


def _explain_naive(sizes, yours, expected) -> str | None:
    N, D, item = sizes["N"], sizes["D"], sizes["itemsize"]
    square, thin = N * N * item, N * D * item
    said = {
        4 * thin: "Those are Q, K, V and out. The scores and the weights pass through memory too.",
        4 * square: "Those are scores and weights alone; Q, K, V and out are missing.",
        2 * square + 4 * thin: "The scores are written *and* read, and so are the weights.",
        3 * square + 4 * thin: "Three passes over N × N are counted; there are four: each kernel reads what the one "
        "before it wrote.",
        4 * square + 3 * thin: "One of Q, K, V and out is missing.",
        4 * N * N + 4 * N * D: "That counts elements. Each has `itemsize` bytes.",
    }
    return said.get(yours)


register(
    PlainExercise(
        id="17_flash_attention/naive_bytes",
        title="Bytes that three kernels move",
        entry="naive_bytes",
        points=Points(correct=1),
        reference=lambda N, D, itemsize: itemsize * (4 * N * N + 4 * N * D),
        rtol=0.0,
        explain=_explain_naive,
        cases=(
            Case("4096 keys, head size 128, fp16", _sizes_of(N=4096, D=128, itemsize=2)),
            Case("131 072 keys", _sizes_of(N=131_072, D=128, itemsize=2)),
            Case("head size 64, fp32", _sizes_of(N=1000, D=64, itemsize=4)),
            Case("fewer keys than the head size", _sizes_of(N=30, D=64, itemsize=2)),
        ),
        draw=lambda rng: {
            "N": rng.randrange(1, 200_000),
            "D": rng.choice([32, 64, 128]),
            "itemsize": rng.choice([2, 4]),
        },
    )
)


def _tiled(N, D, block_m, itemsize):
    return itemsize * (2 * N * D + 2 * N * D * -(-N // block_m))


def _explain_tiled(sizes, yours, expected) -> str | None:
    N, D, bm, item = (sizes[k] for k in ("N", "D", "block_m", "itemsize"))
    thin, blocks = N * D * item, -(-N // bm)
    said = {
        4 * thin: "Each block of queries reads all keys and values again. How many blocks are there?",
        2 * thin * blocks: "Q is read and out is written once, beside what the blocks read of K and V.",
        2 * thin + thin * blocks: "Both K and V are read by every block.",
        4 * thin * blocks: "A block reads and writes its own rows of Q and out, not all of them.",
        2 * N * D + 2 * N * D * blocks: "That counts elements. Each has `itemsize` bytes.",
        2 * thin + 2 * thin * (N // bm): "A last block that is not full is a block too: round up.",
        item * (2 * N * D + 2 * N * D * N / bm): "The number of blocks is whole: round up.",
    }
    return next((text for value, text in said.items() if yours == value), None)


register(
    PlainExercise(
        id="17_flash_attention/tiled_bytes",
        title="Bytes that tiles load and store",
        entry="tiled_bytes",
        points=Points(correct=1),
        reference=_tiled,
        rtol=0.0,
        explain=_explain_tiled,
        cases=(
            Case("4096 keys, blocks of 128 queries", _sizes_of(N=4096, D=128, block_m=128, itemsize=2)),
            Case("131 072 keys", _sizes_of(N=131_072, D=128, block_m=128, itemsize=2)),
            Case("a last block that is not full", _sizes_of(N=1000, D=64, block_m=128, itemsize=2)),
            Case("a single block", _sizes_of(N=100, D=64, block_m=128, itemsize=4)),
        ),
        draw=lambda rng: {
            "N": rng.randrange(1, 200_000),
            "D": rng.choice([32, 64, 128]),
            "block_m": rng.choice([64, 128]),
            "itemsize": rng.choice([2, 4]),
        },
    )
)


# --- known mistakes ----------------------------------------------------------------------------------------------


def _tile_numbers(n: int, size: int):
    return torch.arange(n) // size


def _walk(s, v, rescale_sum=True, rescale_acc=True, over: bool = False):
    """What a loop over tiles of TILE_N keys computes that forgets to rescale, or divides where it should multiply."""
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
    """Attention to the keys of some tiles alone; `which` maps (numbers of the tiles, last tile of each query)."""
    tile = _tile_numbers(s.shape[-1], TILE_N)
    seen = s > -torch.inf
    last = torch.where(seen, tile, -1).amax(-1, keepdim=True)
    return from_scores(s.masked_fill(~which(tile, last), -torch.inf), v)


def _with_zeros(s, v, most=TILE_N):
    """Keys past the end, up to the end of the tile, that count with a score of 0 and a value of 0."""
    extra = min(-s.shape[-1] % TILE_N, most)
    padded = torch.nn.functional.pad(s, (0, extra))
    return from_scores(padded, torch.nn.functional.pad(v, (0, 0, 0, extra)))


def _without_last(s):
    return s.masked_fill(torch.arange(s.shape[-1]) == s.shape[-1] - 1, -torch.inf)


PAST_THE_END = "past the end"


def _suspects(scored) -> tuple[KnownMistake, ...]:
    """Wrong answers of every level; `scored(q, k, scale=…, **more)` gives the scores that this level asks for."""

    def some(kind, sentence, compute):
        return KnownMistake(kind, sentence, lambda q, k, v, **more: compute(scored(q, k, **more), v))

    def scaled(kind, sentence, factor):
        def compute(q, k, v, **more):
            return from_scores(scored(q, k, scale=factor(q.shape[-1]), **more), v)

        return KnownMistake(kind, sentence, compute)

    def of_lse(sentence, compute):
        def lse(q, k, v, **more):
            s = scored(q, k, **more)
            return {"lse": compute(s, s.amax(-1), torch.logsumexp(s, -1))}

        return KnownMistake("wrong-formula", sentence, lse)

    return (
        scaled("wrong-formula", "the scores are not scaled: {name} has q kᵀ where q kᵀ / √D should be", lambda d: 1.0),
        scaled("wrong-formula", "the scores are divided by D, not by √D", lambda d: 1 / d),
        scaled(
            "wrong-formula",
            "{name} is right for scores without the factor log₂ e: exp(x) is exp2(x · log₂ e)",
            lambda d: math.log(2) * d**-0.5,
        ),
        scaled("wrong-formula", "the factor log₂ e is applied twice", lambda d: d**-0.5 / math.log(2)),
        some(
            "wrong-formula",
            "{name} is not rescaled when the maximum grows: acc needs the same factor as l",
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
            "l and acc are divided where they should be multiplied: the factor is exp2(m − m_new)",
            lambda s, v: _walk(s, v, over=True),
        ),
        some("padded-lanes", f"keys {PAST_THE_END} take part, with a score of 0", _with_zeros),
        some("padded-lanes", f"one key {PAST_THE_END} takes part", lambda s, v: _with_zeros(s, v, 1)),
        some("off-by-one", "the last key is left out", lambda s, v: from_scores(_without_last(s), v)),
        some(
            "missing-accumulation",
            "{name} holds the last tile of keys alone: acc starts anew in each tile",
            lambda s, v: _tiles(s, v, lambda tile, last: tile == last),
        ),
        some(
            "missing-accumulation",
            "{name} holds the first tile of keys alone",
            lambda s, v: _tiles(s, v, lambda tile, last: tile == 0),
        ),
        some(
            "missing-accumulation",
            "acc holds the last tile of keys alone, and l all of them",
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
        of_lse("{name} is in powers of two: multiply by ln 2", lambda s, m, lse: lse / math.log(2)),
        of_lse("{name} is log l: the maximum is missing", lambda s, m, lse: lse - m),
        of_lse("{name} is the maximum alone", lambda s, m, lse: m),
        of_lse("{name} is m + log l with m still in powers of two", lambda s, m, lse: m / math.log(2) + lse - m),
        of_lse("{name} has m as a natural and l as a binary logarithm", lambda s, m, lse: m + (lse - m) / math.log(2)),
        of_lse("{name} is m − log l", lambda s, m, lse: 2 * m - lse),
        of_lse("{name} is the sum l itself", lambda s, m, lse: torch.exp(lse - m)),
        of_lse("{name} is m + l: the logarithm is missing", lambda s, m, lse: m + torch.exp(lse - m)),
    )


def _last_of_all(s, v):
    P, tile = torch.softmax(s, -1), _tile_numbers(s.shape[-1], TILE_N)
    last = torch.where(s > -torch.inf, tile, -1).amax(-1, keepdim=True)
    return torch.where(tile == last, P, 0.0) @ heads_of_keys(v, len(s))


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
        "query head h reads key head h % HK: heads of a group lie beside each other, so it is h // group",
        _other_heads(lambda h, group, count: h % count, causal=True),
    ),
    KnownMistake(
        "wrong-formula", "query head h reads key head h", _other_heads(lambda h, group, count: h, causal=True)
    ),
    KnownMistake(
        "wrong-formula", "every query head reads key head 0", _other_heads(lambda h, group, count: 0 * h, causal=True)
    ),
)


# --- kernels -------------------------------------------------------------------------------------------------------


def _cost(sizes, item, causal=False) -> Cost:
    H, HK, M, N, D = (sizes[k] for k in ("H", "HK", "M", "N", "D"))
    pairs = M * (M + 1) // 2 if causal else M * N
    return Cost(item * D * (H * M + 2 * HK * N), item * D * H * M + 4 * H * M, 4 * H * D * pairs)


def _of(H, M, N, D=32, HK=None, **more):
    return {"H": H, "HK": HK or H, "M": M, "N": N, "D": D, **more}


def _library(q, k, v, causal=0):
    sdpa = torch.nn.functional.scaled_dot_product_attention
    shape = (1, *q.shape)
    return sdpa(q.view(shape), k[None], v[None], is_causal=bool(causal), enable_gqa=len(q) != len(k))[0]


CONTRACT = Contract(dtype="float16", operands="float16", terms=terms)

ARGUMENTS = {
    "q": array("H", "M", "D"),
    "k": array("HK", "N", "D"),
    "v": array("HK", "N", "D"),
    "out": out("H", "M", "D"),
    "lse": out("H", "M", dtype="float32"),
}

register(
    KernelExercise(
        id="17_flash_attention/forward",
        title="Attention in one pass, whole tiles",
        entry="forward",
        points=Points(correct=4),
        arguments=ARGUMENTS,
        reference=attention,
        magnitude=magnitude,
        contract=CONTRACT,
        cost=_cost,
        cases=(
            Case("1 head, one tile", _of(1, 32, 16)),
            Case("1 head, 32 queries, 64 keys: a loop over tiles", _of(1, 32, 64), "position"),
            Case("2 heads, 64 queries, 32 keys", _of(2, 64, 32), "position"),
            Case("2 heads, 32 queries, 32 keys, head size 64", _of(2, 32, 32, 64)),
            Case("1 head, 32 queries, 80 keys, scores up to a hundred", _of(1, 32, 80), "integers"),
            Case("2 heads, 32 queries, 48 keys, padded rows", _of(2, 32, 48), "position", "padded"),
            Case("1 head, 32 queries, 48 keys, values of all sizes", _of(1, 32, 48), "wide"),
            Case("1 head, 32 queries, 64 keys, bf16", _of(1, 32, 64), dtype="bfloat16"),
            Case("1 head, 64 queries, 96 keys, not aligned to 16 bytes", _of(1, 64, 96), layout="offset"),
        ),
        draw=lambda rng: _of(
            rng.randrange(1, 4), 32 * rng.randrange(1, 4), 16 * rng.randrange(1, 6), rng.choice([32, 64])
        ),
        tiny=Case("32 queries, 16 keys, head size 16", _of(1, 32, 16, 16)),
        bench=_of(128, 4096, 4096, 128),
        library=_library,
        # its keys fill whole tiles: there is no past the end
        known_mistakes=tuple(s for s in _suspects(scores) if PAST_THE_END not in s.sentence),
    )
)

register(
    KernelExercise(
        id="17_flash_attention/ragged",
        title="Any number of queries and keys, shared key heads",
        entry="ragged",
        points=Points(correct=3),
        arguments=ARGUMENTS,
        reference=attention,
        magnitude=magnitude,
        contract=CONTRACT,
        cost=_cost,
        cases=(
            Case("2 queries, 3 keys", _of(1, 2, 3), "position"),
            Case(
                f"{TILE_M - 1} queries, {TILE_N + 1} keys: next to a tile", _of(1, TILE_M - 1, TILE_N + 1), "position"
            ),
            Case(f"{TILE_M + 1} queries, {TILE_N - 1} keys", _of(1, TILE_M + 1, TILE_N - 1), "position"),
            Case("4 query heads on 2 key heads, 37 keys", _of(4, 20, 37, 64, HK=2), "position"),
            Case("6 query heads on 2 key heads, 9 queries, 15 keys", _of(6, 9, 15, 64, HK=2)),
            Case("3 query heads on 1 key head, 53 keys, head size 64", _of(3, 17, 53, 64, HK=1)),
            Case("1 head, 5 queries, 41 keys, head size 128", _of(1, 5, 41, 128)),
            Case("1 head, 33 queries, 67 keys, scores up to a hundred", _of(1, 33, 67), "integers"),
            Case("2 heads, 31 queries, 45 keys, padded rows", _of(2, 31, 45), "position", "padded"),
            Case("1 head, 7 queries, 50 keys, values of all sizes", _of(1, 7, 50), "wide"),
            Case("1 head, 32 queries, 32 keys: whole tiles, bf16", _of(1, 32, 32), dtype="bfloat16"),
            Case("1 head, 65 queries, 97 keys, not aligned to 16 bytes", _of(1, 65, 97), layout="offset"),
        ),
        draw=lambda rng: _of(
            (heads := rng.randrange(1, 3)) * rng.randrange(1, 4),
            rng.randrange(1, 80),
            rng.randrange(1, 80),
            rng.choice([32, 64]),
            HK=heads,
        ),
        tiny=Case("2 queries, 3 keys, head size 16", _of(1, 2, 3, 16)),
        bench=_of(128, 4000, 4000, 128, HK=32),
        library=_library,
        known_mistakes=(*GROUPS, *_suspects(scores)),
    )
)


def _masked(q, k, causal=1, shift=0, scale=None):
    s = scores(q, k, False, scale)
    return s.masked_fill(~visible(s, shift), -torch.inf) if causal else s


def _either(q, k, v, causal):
    return attention(q, k, v, bool(causal))


def _shifted(shift):
    def compute(q, k, v, causal):
        return from_scores(_masked(q, k, causal, shift), v)

    return compute


def _by_tiles(q, k, v, causal):
    """Whole tiles are skipped as they should be, but the mask on the diagonal is missing."""
    s = scores(q, k)
    M, N = s.shape[1:]
    end = (torch.arange(M) // TILE_M + 1) * TILE_M  # keys of the program's tiles, up to its last query
    end = (-(-end.clamp(max=N) // TILE_N) * TILE_N).clamp(max=N)
    return from_scores(s.masked_fill(torch.arange(N) >= end[:, None], -torch.inf) if causal else s, v)


def _only_full(q, k, v, causal):
    """The tiles on the diagonal are left out; queries of the first block see nothing."""
    s = scores(q, k)
    M, N = s.shape[1:]
    end = torch.arange(M) // TILE_M * TILE_M if causal else torch.full((M,), N // TILE_N * TILE_N)
    return from_scores(s.masked_fill(torch.arange(N) >= end[:, None], -torch.inf), v)


register(
    KernelExercise(
        id="17_flash_attention/flash",
        title="Causal attention in two loops, with descriptors",
        entry="flash",
        points=Points(correct=4),
        arguments={**ARGUMENTS, "causal": Number("causal")},
        reference=_either,
        magnitude=lambda q, k, v, causal: magnitude(q, k, v, bool(causal)),
        contract=CONTRACT,
        cost=lambda sizes, item: _cost(sizes, item, bool(sizes["causal"])),
        cases=(
            Case("causal, 2 queries", _of(1, 2, 2, causal=1), "position"),
            Case(f"causal, {TILE_M - 1} queries: one short of a tile", _of(1, TILE_M - 1, TILE_M - 1, causal=1)),
            Case(
                f"causal, {TILE_M} queries: exactly one tile, bf16", _of(2, TILE_M, TILE_M, causal=1), dtype="bfloat16"
            ),
            Case(f"causal, {TILE_M + 1} queries", _of(1, TILE_M + 1, TILE_M + 1, causal=1), "position"),
            Case("causal, 4 query heads on 2 key heads, 37 queries, head size 64", _of(4, 37, 37, 64, 2, causal=1)),
            Case("causal, 61 queries", _of(1, 61, 61, causal=1), "position"),
            Case("causal, 70 queries, scores up to a hundred", _of(1, 70, 70, causal=1), "integers"),
            Case("causal, 41 queries, padded rows", _of(1, 41, 41, causal=1), "position", "padded"),
            Case("causal, 97 queries", _of(1, 97, 97, causal=1)),
            Case("not causal, 33 queries, 64 keys: whole tiles", _of(1, 33, 64, causal=0), "position"),
            Case(
                "not causal, 3 query heads on 1 key head, 43 keys, unaligned",
                _of(3, 17, 43, HK=1, causal=0),
                layout="offset",
            ),
        ),
        draw=lambda rng: _of(
            (heads := rng.randrange(1, 3)) * rng.randrange(1, 3),
            (length := rng.randrange(1, 100)),
            length,
            rng.choice([32, 64]),
            HK=heads,
            causal=rng.choice([1, 1, 0]),
        ),
        tiny=Case("3 queries, head size 16", _of(1, 3, 3, 16, causal=1)),
        bench=_of(32, 16_384, 16_384, 128, causal=1),
        library=_library,
        known_mistakes=(
            KnownMistake(
                "wrong-formula",
                "nothing is masked: each query sees the keys after its own too",
                lambda q, k, v, causal: attention(q, k, v),
            ),
            KnownMistake("off-by-one", "each query also sees the key after its own", _shifted(1)),
            KnownMistake("off-by-one", "no query sees its own key: the diagonal belongs to what is seen", _shifted(-1)),
            KnownMistake(
                "wrong-formula",
                "the mask on the diagonal is missing: queries see all keys of their last tile",
                _by_tiles,
            ),
            KnownMistake("missing-accumulation", "the tiles that need a mask are left out", _only_full),
            KnownMistake(
                "wrong-formula",
                "the mask is the wrong way round: queries see the keys from their own on",
                lambda q, k, v, causal: _backwards(q, k, v, causal),
            ),
            *GROUPS,
            *_suspects(_masked),
        ),
    )
)


def _backwards(q, k, v, causal):
    s = scores(q, k)
    seen = torch.arange(s.shape[2]) >= torch.arange(s.shape[1])[:, None]
    return from_scores(s.masked_fill(~seen, -torch.inf) if causal else s, v)
