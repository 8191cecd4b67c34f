"""Unit 19, kernels: one new query per sequence, with a KV cache. Arrays are fp16 or bf16, accumulators and parts fp32.

Query heads are H, heads of keys and values HK; heads h·G … h·G + G − 1 share key head h. Each sequence has its own
length, at most N.
"""

import torch

from ..spec.exercise import (
    Bound,
    Case,
    Contract,
    Cost,
    KernelExercise,
    KnownMistake,
    Number,
    Points,
    array,
    out,
    register,
)
from . import _decode as form
from . import _flash_mistakes
from ._attention import attention, magnitude, scores

TILE, CHUNK = 16, 32
"""In the launchers, for small arrays: keys of a tile, and of a part."""

# --- known mistakes ------------------------------------------------------------------------------------------------


def _padded(s, k, v):
    """Keys past the end of a part, up to the end of the tile, included with score 0 and value 0."""
    extra = -s.shape[-1] % TILE
    return torch.nn.functional.pad(s, (0, extra)), torch.nn.functional.pad(v, (0, 0, 0, extra))


def _on_heads(which):
    """`of`: attention with another key head for each query head."""

    def of(query, k, v):
        H, HK = len(query), len(k)
        chosen = which(torch.arange(H), H // HK, HK)
        return attention(query, k[chosen], v[chosen])

    return of


NOT_HERE = (
    _flash_mistakes.PAST_THE_END,
    "by D",
    "twice",
    "multiplied",
    "first tile",
    "only the maximum",
    "− log",
    "the sum l",
    "m + l",
)
"""Words in the sentences of unit 17's mistakes that do not apply here."""


def _lifted(mistake):
    """A mistake of unit 17, for every part of the keys."""

    def of(query, k, v):
        return {**attention(query, k, v), **mistake.compute(query, k, v)}

    return KnownMistake(mistake.diagnosis, mistake.sentence.replace("{name}", "a part"), lambda **x: _parts(**x, of=of))


def of_keys(run) -> tuple[KnownMistake, ...]:
    """Mistakes about keys and heads; `run(of=…, **inputs)` computes the exercise's outputs."""

    def mistake(kind, sentence, change=lambda **x: x, of=attention):
        return KnownMistake(kind, sentence, lambda **x: run(**change(**x), of=of))

    def longer(by):
        return lambda lengths, **x: {**x, "lengths": lengths + by}

    return (
        mistake(
            "padded-lanes",
            "keys past the end of the sequence are included: their score is 0, and exp2(0 − m) is not 0",
            of=form.with_scores(_padded),
        ),
        mistake(
            "wrong-formula",
            "the lengths are not used: {name} includes old data past the sequence's end",
            longer(10**6),
        ),
        mistake(
            "wrong-formula",
            "every sequence uses the length of the first",
            lambda lengths, **x: {**x, "lengths": lengths[:1].expand(len(lengths))},
        ),
        mistake("off-by-one", "{name} includes one key past the end of the sequence", longer(1)),
        mistake("off-by-one", "{name} leaves out the last key of each sequence", longer(-1)),
        mistake(
            "wrong-formula",
            "query head h reads key head h % HK: the heads of a group are adjacent, so it is h // group",
            of=_on_heads(lambda h, group, count: h % count),
        ),
        mistake("wrong-formula", "every query head reads key head 0", of=_on_heads(lambda h, group, count: 0 * h)),
        mistake(
            "wrong-formula",
            "all heads of a group have the result of its first head",
            lambda q, **x: {**x, "q": _first_of_group(q, form.group_of(q, x["k"]))},
        ),
    )


def _cache_of_first(run) -> KnownMistake:
    return KnownMistake(
        "wrong-formula",
        "every sequence reads the cache of the first",
        lambda k, v, **x: run(k=k[:1].expand_as(k), v=v[:1].expand_as(v), **x),
    )


def _first_of_group(q, group):
    return q[:, torch.arange(q.shape[1]) // group * group]


# --- a part of the keys --------------------------------------------------------------------------------------------


def _of(B, H, HK, N, D=32, mix=1, **more):
    return {"B": B, "H": H, "HK": HK, "N": N, "D": D, "mix": mix, **more}


def _split(B, H, HK, N, chunk, D=32, mix=1):
    return _of(B, H, HK, N, D, mix, chunk=chunk, S=-(-N // chunk))


def _parts(q, k, v, lengths, chunk, of=attention):
    return form.parts(q, k, v, lengths, chunk, -(-k.shape[2] // chunk), of)


def cost(sizes, item, keys=None) -> Cost:
    B, H, HK, D = (sizes[n] for n in ("B", "H", "HK", "D"))
    every = int(form.lengths(sizes).sum())
    keys = every if keys is None else keys
    return Cost(item * D * (B * H + 2 * HK * keys) + 4 * B, item * D * B * H, 4 * H * D * every)


def _cost_of_parts(sizes, item) -> Cost:
    least, rows = cost(sizes, item), sizes["B"] * sizes["H"] * sizes["S"]
    return Cost(least.read, 4 * rows * (sizes["D"] + 1), least.flops)


def _all_first(q, k, v, lengths, chunk):
    """Every part holds the first chunk of keys."""
    first = form.parts(q, k, v, lengths, chunk, 1)
    S = -(-k.shape[2] // chunk)
    return {n: x.expand(*x.shape[:2], S, *x.shape[3:]) for n, x in first.items()}


def _to_the_end(q, k, v, lengths, chunk):
    """Part s starts at its own key and ends at the end of the sequence."""
    S = -(-k.shape[2] // chunk)
    found = [
        form.parts(q, k[:, :, s * chunk :], v[:, :, s * chunk :], (lengths - s * chunk), 10**6, 1) for s in range(S)
    ]
    there = (lengths[:, None] > chunk * torch.arange(S))[:, None]
    joined = {n: torch.cat([f[n] for f in found], 2) for n in ("part", "lse")}
    return {
        "part": torch.where(there[..., None], joined["part"], 0.0),
        "lse": torch.where(there, joined["lse"], -torch.inf),
    }


register(
    KernelExercise(
        id="19_decode_attention/partial",
        title="Level 1: part of the keys, all heads of a group",
        entry="partial",
        points=Points(
            correct=4,
            bounds=(Bound("bytes moved, relative to the minimum", "moved_bytes", "compulsory_bytes", at_most=1.25),),
        ),
        arguments={
            "q": array("B", "H", "D"),
            "k": array("B", "HK", "N", "D"),
            "v": array("B", "HK", "N", "D"),
            "lengths": array("B", fill=form.lengths, dtype="int32"),
            "chunk": Number("chunk"),
            "part": out("B", "H", "S", "D", dtype="float32"),
            "lse": out("B", "H", "S", dtype="float32"),
        },
        reference=_parts,
        magnitude=lambda **x: _parts(**x, of=magnitude),
        contract=Contract(dtype="float16", operands="float16", terms=lambda sizes: sizes["N"] + sizes["D"]),
        cost=_cost_of_parts,
        cases=(  # few combinations of strides and sizes, because each compiles its own kernel
            Case("1 sequence, 1 head, 16 keys: one part, one tile", _split(1, 1, 1, 16, 16, mix=0)),
            Case("1 sequence, 1 head, 3 keys", _split(1, 1, 1, 3, 16, mix=0), "position"),
            Case("1 sequence, 2 heads on 1, 48 keys, parts of 32", _split(1, 2, 1, 48, 32, mix=0), "position"),
            Case("3 sequences of different lengths, empty parts", _split(3, 4, 2, 70, 32), "position"),
            Case("2 sequences, 6 heads on 2, 33 keys, parts of 16", _split(2, 6, 2, 33, 16, mix=4), "position"),
            Case("2 sequences, 3 heads on 1, scores up to a hundred", _split(2, 3, 1, 37, 32, mix=2), "integers"),
            Case("2 sequences, scores far below zero", _split(2, 2, 1, 43, 32, mix=2), "opposed"),
            Case("2 sequences, padded rows", _split(2, 4, 2, 45, 32, mix=3), "position", "padded"),
            Case("2 sequences, values of all sizes", _split(2, 2, 1, 50, 32, mix=6), "wide"),
            Case("bf16, not aligned to 16 bytes", _split(2, 4, 2, 41, 32, mix=7), "normal", "offset", "bfloat16"),
            Case("20 query heads on 1 key head, parts of 64 keys", _split(2, 20, 1, 150, 64, 64, 5)),
        ),
        draw=lambda rng: _split(
            rng.randrange(1, 4),
            (heads := rng.randrange(1, 3)) * rng.randrange(1, 5),
            heads,
            rng.randrange(1, 90),
            rng.choice([16, 32, 48]),
            rng.choice([32, 64]),
            rng.randrange(0, 1000),
        ),
        tiny=Case("2 heads on 1 key head, 3 keys", _split(1, 2, 1, 3, 16, 16, 0)),
        bench=_split(64, 32, 8, 8192, 1024, 128, 0),
        known_mistakes=(
            KnownMistake("wrong-formula", "every part holds the first chunk of keys", _all_first),
            KnownMistake(
                "wrong-formula", "each part continues to the end of the sequence, past its own chunk", _to_the_end
            ),
            _cache_of_first(_parts),
            *of_keys(_parts),
            *(_lifted(s) for s in _flash_mistakes.known_mistakes(scores) if not any(x in s.sentence for x in NOT_HERE)),
        ),
    )
)

# --- combine the parts ---------------------------------------------------------------------------------------------


def _decode(q, k, v, lengths, of=attention):
    return form.decode(q, k, v, lengths, of)


def _combined(weights):
    """Parts as the launcher cuts them, with weights (B, H, S) made from lse."""

    def compute(q, k, v, lengths):
        p = form.parts(q, k, v, lengths, CHUNK, -(-k.shape[2] // CHUNK))
        return {"out": (weights(p["lse"])[..., None] * p["part"]).sum(2)}

    return compute


ROOM = 8
"""Lanes of the launcher's combination for small numbers of parts."""


def _combined_of_eight(q, k, v, lengths):
    """Lanes past the last part load 0 for lse and for the part."""
    p = form.parts(q, k, v, lengths, CHUNK, -(-k.shape[2] // CHUNK))
    lse = torch.nn.functional.pad(p["lse"], (0, max(0, ROOM - p["lse"].shape[-1])))
    weights = torch.softmax(lse, -1)[..., : p["lse"].shape[-1]]
    return {"out": (weights[..., None] * p["part"]).sum(2)}


def _there(lse):
    return (lse > -torch.inf).double()


def _share(w):
    return w / w.sum(-1, keepdim=True)


def _one_part(which):
    def weights(lse):
        count = _there(lse).sum(-1, keepdim=True).long()
        return (torch.arange(lse.shape[-1]) == which(count)).double()

    return _combined(weights)


COMBINED = (
    KnownMistake("wrong-formula", "{name} is the plain mean of the parts", _combined(lambda s: _share(_there(s)))),
    KnownMistake("wrong-formula", "{name} is the mean of all S parts", _combined(lambda s: _share(1 + 0 * _there(s)))),
    KnownMistake("missing-accumulation", "{name} is the sum of the parts, without weights", _combined(_there)),
    KnownMistake(
        "wrong-formula",
        "the weights use exp2 with a natural logarithm: they are exp(lse − maximum)",
        _combined(lambda lse: _share(torch.exp2(lse - lse.amax(-1, keepdim=True)))),
    ),
    KnownMistake(
        "wrong-formula",
        "{name} is not divided by the sum of the weights",
        _combined(lambda lse: torch.exp(lse - lse.amax(-1, keepdim=True))),
    ),
    KnownMistake(
        "padded-lanes",
        "lanes past the last part are included: load their lse as -inf, not 0",
        _combined_of_eight,
    ),
    KnownMistake("missing-accumulation", "{name} holds only the first part of the keys", _one_part(lambda n: 0 * n)),
    KnownMistake("missing-accumulation", "{name} holds only the last part of the keys", _one_part(lambda n: n - 1)),
)  # fmt: skip


def _library(q, k, v, lengths):
    """PyTorch's attention: it takes no lengths, so it needs a mask unless all sequences are full."""
    return form.library(q, k, v, None if int(lengths.min()) == k.shape[2] else lengths)


DECODE = dict(
    reference=_decode,
    magnitude=lambda **x: _decode(**x, of=magnitude),
    contract=Contract(dtype="float16", operands="float16", terms=lambda sizes: sizes["N"] + sizes["D"]),
    tokens=lambda sizes: sizes["B"],
)

register(
    KernelExercise(
        id="19_decode_attention/decode",
        title="Level 2: combine the parts",
        entry="decode",
        points=Points(correct=3),
        arguments={
            "q": array("B", "H", "D"),
            "k": array("B", "HK", "N", "D"),
            "v": array("B", "HK", "N", "D"),
            "lengths": array("B", fill=form.lengths, dtype="int32"),
            "out": out("B", "H", "D"),
        },
        **DECODE,
        cost=cost,
        cases=(
            Case("1 sequence, 1 head, 1 key", _of(1, 1, 1, 1), "position"),
            Case(f"{CHUNK} keys: one part", _of(1, 1, 1, CHUNK, mix=0), "position"),
            Case(f"{CHUNK + 1} keys: a part with a single key", _of(1, 2, 1, CHUNK + 1, mix=0), "position"),
            Case("3 sequences of different lengths, empty parts", _of(3, 4, 2, 70), "position"),
            Case("3 parts with very different weights", _of(2, 3, 1, 80, mix=2), "integers"),
            Case("2 sequences, scores far below zero", _of(2, 2, 1, 75, mix=2), "opposed"),
            Case("2 sequences, padded rows", _of(2, 4, 2, 77, mix=3), "position", "padded"),
            Case("values of all sizes", _of(2, 2, 1, 90, mix=0), "wide"),
            Case("20 heads on 1 key head, bf16, unaligned", _of(1, 20, 1, 150, 64, 0), "normal", "offset", "bfloat16"),
        ),
        draw=lambda rng: _of(
            rng.randrange(1, 4),
            (heads := rng.randrange(1, 3)) * rng.randrange(1, 5),
            heads,
            rng.randrange(1, 160),
            rng.choice([32, 64]),
            rng.randrange(0, 1000),
        ),
        tiny=Case("2 heads on 1 key head, 3 keys", _of(1, 2, 1, 3, 16, 0)),
        bench=_of(64, 32, 8, 8192, 128, 0),
        library=_library,
        known_mistakes=(*COMBINED, _cache_of_first(_decode), *of_keys(_decode)),
    )
)
