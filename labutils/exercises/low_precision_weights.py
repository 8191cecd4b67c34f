"""Unit 22 (sub-byte), 4-bit weights: fp16 activations times weights that the kernel unpacks."""

from __future__ import annotations

import torch

from ..spec.exercise import Bound, Case, Contract, Cost, KernelExercise, KnownMistake, Points, array, out, register

UNIT = "22_sub_byte"
GROUP, WORD, ZERO = 128, 8, 8
"""Weights that share a scale; weights per 32-bit word; the zero point, the code that means 0."""

PER_GROUP = GROUP // WORD
"""Words per group."""


def nibbles(words: torch.Tensor) -> torch.Tensor:
    """Codes (N, groups, 16 words, 8 nibbles) of words (N, K / 8), which may come as float64."""
    words = words.long() % 2**32
    parts = torch.stack([words >> 4 * j & 15 for j in range(WORD)], -1)
    return parts.reshape(len(words), -1, PER_GROUP, WORD)


def in_turn(codes):
    """The order that the exercise requires, (N, K): nibble j of word i is weight 8 · i + j."""
    return codes.flatten(1)


def _weights(words, scales, order=in_turn, zero=ZERO):
    q = order(nibbles(words)).double()
    return (q - zero) * scales.repeat_interleave(GROUP, 1)


def _product(a, words, scales, **more):
    return a @ _weights(words, scales, **more).T


def _with(scale_of):
    return lambda a, words, scales: _product(a, words, scale_of(scales))


def _signed(a, words, scales):
    """Codes read as two's complement."""
    q = in_turn(nibbles(words)).double()
    return a @ (torch.where(q >= 8, q - 16, q) * scales.repeat_interleave(GROUP, 1)).T


def _top_signed(a, words, scales):
    """The last nibble of a word keeps the word's sign bits."""
    q = nibbles(words).double()
    q[..., -1] = torch.where(q[..., -1] >= 8, q[..., -1] - 16, q[..., -1])
    return a @ ((in_turn(q) - ZERO) * scales.repeat_interleave(GROUP, 1)).T


def _rescaled(a, words, scales):
    total, plain = 0, in_turn(nibbles(words)).double() - ZERO
    for g in range(scales.shape[1]):
        k = slice(g * GROUP, (g + 1) * GROUP)
        total = (total + a[:, k] @ plain[:, k].T) * scales[None, :, g]
    return total


def _only(cut):
    def compute(a, words, scales):
        keep = torch.arange(a.shape[1]) // GROUP == cut(scales.shape[1])
        return _product(torch.where(keep, a, 0.0), words, scales)

    return compute


def _unmoved(a, words, scales):
    """Every group uses the first 128 activations."""
    return _product(a[:, torch.arange(a.shape[1]) % GROUP], words, scales)


MISTAKES = (
    KnownMistake(
        "wrong-formula",
        "the nibbles are in reverse order: nibble 0 is in the low four bits",
        lambda a, words, scales: _product(a, words, scales, order=lambda q: in_turn(q.flip(3))),
    ),
    KnownMistake(
        "wrong-formula",
        "the two nibbles of each byte are swapped: the even weight is in the low four bits",
        lambda a, words, scales: _product(a, words, scales, order=lambda q: in_turn(q[..., [1, 0, 3, 2, 5, 4, 7, 6]])),
    ),
    KnownMistake(
        "wrong-formula",
        "the nibbles are in the wrong order: the last axis that `join` creates runs fastest, so join by 4 bits last",
        lambda a, words, scales: _product(a, words, scales, order=lambda q: in_turn(q[..., [0, 4, 2, 6, 1, 5, 3, 7]])),
    ),
    KnownMistake(
        "wrong-formula",
        "the weights are grouped by nibble: nibble j of word i is weight 8 · i + j",
        lambda a, words, scales: _product(a, words, scales, order=lambda q: q.transpose(2, 3).flatten(1)),
    ),
    KnownMistake(
        "wrong-formula",
        "the weights are 0 to 15: the code 8 means 0, so subtract 8",
        lambda a, words, scales: _product(a, words, scales, zero=0),
    ),
    *(
        KnownMistake(
            "wrong-formula",
            f"the zero point is {zero}: the code 8 means 0",
            lambda a, words, scales, zero=zero: _product(a, words, scales, zero=zero),
        )
        for zero in (7, 7.5)
    ),
    KnownMistake("wrong-formula", "the codes are read as two's complement: a weight is code − 8", _signed),
    KnownMistake(
        "wrong-formula",
        "the last nibble of each word is sign-extended: mask with & 15 after the shift",
        _top_signed,
    ),
    KnownMistake("wrong-formula", "{name} is not multiplied by the scales", _with(torch.ones_like)),
    KnownMistake("wrong-formula", "{name} is divided by the scales", _with(lambda s: 1 / s)),
    KnownMistake(
        "wrong-formula",
        "every group uses the scale of the first one: scales are (N, groups), indexed by the loop's group",
        _with(lambda s: s[:, :1].expand_as(s)),
    ),
    KnownMistake(
        "wrong-formula", "every group uses the scale of the last one", _with(lambda s: s[:, -1:].expand_as(s))
    ),
    KnownMistake(
        "wrong-formula",
        "all rows use the scales of the first: each row of weights has its own",
        _with(lambda s: s[:1].expand_as(s)),
    ),
    *(
        KnownMistake(
            "wrong-formula",
            f"{tile} rows share the scales of the first of them: each row of weights has its own",
            _with(lambda s, tile=tile: s[torch.arange(len(s)) // tile * tile]),
        )
        for tile in (16, 32, 64)
    ),
    KnownMistake(
        "wrong-formula",
        "the accumulator is multiplied by the scale in each iteration: scale the group's sum, then add it",
        _rescaled,
    ),
    KnownMistake("missing-accumulation", "{name} holds only the last group", _only(lambda groups: groups - 1)),
    KnownMistake("missing-accumulation", "{name} holds only the first group", _only(lambda groups: 0)),
    KnownMistake(
        "missing-accumulation",
        "every group uses the first 128 activations: advance the pointers of a",
        _unmoved,
    ),
)


def _words(sizes, g):
    return torch.randint(-(2**31), 2**31, (sizes["N"], sizes["W"]), generator=g)


def _scales(sizes, g):
    return torch.exp2(torch.rand(sizes["N"], sizes["G"], generator=g, dtype=torch.float64) * 3 - 4)


def _of(M, N, groups):
    return {"M": M, "N": N, "K": GROUP * groups, "W": PER_GROUP * groups, "G": groups}


def _cost(sizes, item) -> Cost:
    M, N, K = sizes["M"], sizes["N"], sizes["K"]
    return Cost(N * K // 2 + 2 * N * sizes["G"] + item * M * K, item * M * N, 2 * M * N * K)


def _magnitude(a, words, scales):
    return a.abs() @ _weights(words, scales).abs().T


register(
    KernelExercise(
        id=f"{UNIT}/w4a16",
        title="fp16 times 4-bit weights",
        entry="w4a16",
        points=Points(
            correct=4,
            bounds=(Bound("bytes moved, relative to the minimum", "moved_bytes", "compulsory_bytes", at_most=1.25),),
        ),
        arguments={
            "a": array("M", "K"),
            "words": array("N", "W", fill=_words, dtype="int32"),
            "scales": array("N", "G", fill=_scales, dtype="float16"),
            "out": out("M", "N"),
        },
        reference=_product,
        magnitude=_magnitude,
        contract=Contract(dtype="float16", operands="float16", terms=lambda sizes: sizes["K"]),
        cost=_cost,
        cases=(
            Case("1 × 1, one group", _of(1, 1, 1)),
            Case("1 × 40, two groups", _of(1, 40, 2), "position"),
            Case("3 × 70, three groups", _of(3, 70, 3), "position"),
            Case("16 × 65, two groups", _of(16, 65, 2), "integers"),
            Case("40 × 33, two groups, padded rows", _of(40, 33, 2), "position", "padded"),
            Case("5 × 50, five groups, not aligned to 16 bytes", _of(5, 50, 5), layout="offset"),
            Case("1 × 256, eight groups: a vector", _of(1, 256, 8)),
        ),
        draw=lambda rng: _of(
            rng.choice([1, rng.randrange(1, 17), rng.randrange(17, 65)]), rng.randrange(1, 150), rng.randrange(1, 5)
        ),
        tiny=Case("1 × 2, one group", _of(1, 2, 1)),
        bench=_of(1, 28672, 64),
        library=lambda a, words, scales: a @ _unpacked_once(a, words, scales).T,
        known_mistakes=MISTAKES,
    )
)


def _unpacked_once(a, words, scales):
    """The weights in the dtype of a, unpacked once, for a library without 4-bit weights."""
    key = words.data_ptr(), scales.data_ptr(), a.dtype
    if key not in _unpacked:
        _unpacked.clear()
        _unpacked[key] = _weights(words, scales.double()).to(a.dtype)
    return _unpacked[key]


_unpacked: dict = {}
