"""Unit 17: tiled attention. Arrays are fp16 or bf16, accumulators fp32; one axis counts the heads of all sequences.

H query heads, HK heads of keys and values; H is a multiple of HK, and query heads h·G … h·G + G − 1 share key head h.
"""

import torch

from ..spec.exercise import (
    Bound,
    Case,
    Contract,
    Cost,
    KernelExercise,
    Number,
    PlainExercise,
    Points,
    array,
    out,
    register,
)
from ._attention import attention, magnitude, scores, terms
from ._flash_mistakes import CAUSAL, GROUPS, PAST_THE_END, TILE_M, TILE_N, known_mistakes, masked_scores

# --- ledgers -------------------------------------------------------------------------------------------------------


def _sizes_of(**sizes):
    return sizes


def _explain_scores(sizes, yours, expected) -> str | None:
    heads, N, item = sizes["heads"], sizes["N"], sizes["itemsize"]
    messages = {
        heads * N * N: "That counts elements. Each element has `itemsize` bytes.",
        N * N * item: "That is for one head.",
        2 * heads * N * N * item: "Count only the scores; the weights after the softmax would double that.",
        heads * N * item: "Every query has a score with every key: N scores for each of N queries.",
        heads * N * (N + 1) // 2 * item: "Without a mask every query has a score for every key.",
    }
    return messages.get(yours)


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
    messages = {
        4 * thin: "That counts Q, K, V and out. The scores and the weights go through memory too.",
        4 * square: "That counts only scores and weights; Q, K, V and out are missing.",
        2 * square + 4 * thin: "The scores are written *and* read, and so are the weights.",
        3 * square + 4 * thin: "That counts three N × N transfers; there are four: each kernel reads what the one "
        "before it wrote.",
        4 * square + 3 * thin: "One of Q, K, V and out is missing.",
        4 * N * N + 4 * N * D: "That counts elements. Each element has `itemsize` bytes.",
    }
    return messages.get(yours)


register(
    PlainExercise(
        id="17_flash_attention/naive_bytes",
        title="Bytes moved by three kernels",
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
    messages = {
        4 * thin: "Each block of queries reads all keys and values again. How many blocks are there?",
        2 * thin * blocks: "Add Q, which is read once, and out, which is written once.",
        2 * thin + thin * blocks: "Both K and V are read by every block.",
        4 * thin * blocks: "A block reads and writes its own rows of Q and out, not all of them.",
        2 * N * D + 2 * N * D * blocks: "That counts elements. Each element has `itemsize` bytes.",
        2 * thin + 2 * thin * (N // bm): "A partial last block is a block too: round up.",
        item * (2 * N * D + 2 * N * D * N / bm): "The number of blocks is an integer: round up.",
    }
    return next((text for value, text in messages.items() if yours == value), None)


register(
    PlainExercise(
        id="17_flash_attention/tiled_bytes",
        title="Bytes loaded and stored with tiles",
        entry="tiled_bytes",
        points=Points(correct=1),
        reference=_tiled,
        rtol=0.0,
        explain=_explain_tiled,
        cases=(
            Case("4096 keys, blocks of 128 queries", _sizes_of(N=4096, D=128, block_m=128, itemsize=2)),
            Case("131 072 keys", _sizes_of(N=131_072, D=128, block_m=128, itemsize=2)),
            Case("a partial last block", _sizes_of(N=1000, D=64, block_m=128, itemsize=2)),
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


# --- kernels -------------------------------------------------------------------------------------------------------


def _cost(sizes, item, causal=False) -> Cost:
    H, HK, M, N, D = (sizes[k] for k in ("H", "HK", "M", "N", "D"))
    pairs = M * (M + 1) // 2 if causal else M * N
    return Cost(item * D * (H * M + 2 * HK * N), item * D * H * M + 4 * H * M, 4 * H * D * pairs, H * pairs)


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
        title="Attention in one pass, whole tiles only",
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
            Case("1 head, 32 queries, 48 keys, scores far below zero", _of(1, 32, 48), "opposed"),
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
        # its keys fill whole tiles: no key is past the end
        known_mistakes=tuple(s for s in known_mistakes(scores) if PAST_THE_END not in s.sentence),
    )
)

register(
    KernelExercise(
        id="17_flash_attention/ragged",
        title="Any number of queries and keys, grouped key heads",
        entry="ragged",
        points=Points(correct=3),
        arguments=ARGUMENTS,
        reference=attention,
        magnitude=magnitude,
        contract=CONTRACT,
        cost=_cost,
        # where the last tile is partial, scores differ so little that a key past the end, with score 0, would count
        cases=(
            Case("2 queries, 3 keys", _of(1, 2, 3), "level"),
            Case(f"{TILE_M - 1} queries, {TILE_N + 1} keys: one off a tile", _of(1, TILE_M - 1, TILE_N + 1), "level"),
            Case(f"{TILE_M + 1} queries, {TILE_N - 1} keys", _of(1, TILE_M + 1, TILE_N - 1), "level"),
            Case("4 query heads on 2 key heads, 37 keys", _of(4, 20, 37, 64, HK=2), "level"),
            Case("6 query heads on 2 key heads, 9 queries, 15 keys", _of(6, 9, 15, 64, HK=2)),
            Case("3 query heads on 1 key head, 53 keys, head size 64", _of(3, 17, 53, 64, HK=1)),
            Case("1 head, 5 queries, 41 keys, head size 128", _of(1, 5, 41, 128)),
            Case("1 head, 33 queries, 64 keys, scores up to a hundred", _of(1, 33, 64), "integers"),
            Case("1 head, 21 queries, 47 keys, scores far below zero", _of(1, 21, 47), "opposed"),
            Case("2 heads, 31 queries, 45 keys, padded rows", _of(2, 31, 45), "level", "padded"),
            Case("1 head, 7 queries, 48 keys, values of all sizes", _of(1, 7, 48), "wide"),
            Case("2 heads, 32 queries, 64 keys: whole tiles", _of(2, 32, 64), "position"),
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
        known_mistakes=(*GROUPS, *known_mistakes(scores)),
    )
)


def _either(q, k, v, causal):
    return attention(q, k, v, bool(causal))


register(
    KernelExercise(
        id="17_flash_attention/flash",
        title="Causal attention in two loops, with descriptors",
        entry="flash",
        # one tile above the diagonal for each program is 2.41
        points=Points(
            correct=3,
            bounds=(Bound("bytes moved, relative to the minimum", "moved_bytes", "compulsory_bytes", at_most=2.25),),
        ),
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
            Case("causal, 61 queries", _of(1, 61, 61, causal=1), "position"),
            Case("causal, 70 queries, scores up to a hundred", _of(1, 70, 70, causal=1), "integers"),
            Case("causal, 43 queries, scores far below zero", _of(1, 43, 43, causal=1), "opposed"),
            Case("causal, 2 heads, 41 queries, padded rows", _of(2, 41, 41, causal=1), "position", "padded"),
            Case("causal, 4 query heads on 2 key heads, 75 queries, head size 64", _of(4, 75, 75, 64, 2, causal=1)),
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
            *CAUSAL,
            *GROUPS,
            *known_mistakes(masked_scores),
        ),
    )
)
