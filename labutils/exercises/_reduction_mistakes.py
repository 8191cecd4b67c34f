"""Common mistakes in sums of a vector, as functions of the input."""

import torch

from ..spec.exercise import KnownMistake

BLOCK = 256
"""Threads per block in the unit's launchers. Cases lie just below and above it and its double."""

CHUNK = 4096
"""Elements per iteration of a block of the last kernels."""


def total(x):
    return x.sum(0, keepdim=True)


def _part(keep):
    """The sum of the elements whose index passes `keep`."""
    return lambda x: total(x[keep(torch.arange(x.numel()), x.numel())])


def tree_part(unit: int, keep):
    """The result of successive launches if each block of `unit` elements adds only those whose index passes `keep`.

    The right sum where the last block keeps nothing: a result of 0 has too many possible causes.
    """

    def remaining(x):
        places, right = keep(torch.arange(unit)), total(x)
        while True:
            blocks = -(-x.numel() // unit)
            if not places[: x.numel()].any():
                return right
            padded = torch.nn.functional.pad(x, (0, blocks * unit - x.numel()))
            x = padded.reshape(blocks, unit)[:, places].sum(1)
            if blocks == 1:
                return x

    return remaining


_FORMULAS = (
    KnownMistake("wrong-formula", "{name} is the sum of |x|", lambda x: total(x.abs())),
    KnownMistake("wrong-formula", "{name} is the maximum, not the sum", lambda x: x.max().reshape(1)),
)


def tree_mistakes(unit: int) -> tuple[KnownMistake, ...]:
    """Common mistakes in blocks of `unit` elements, `unit / BLOCK` per thread."""
    lost = {
        "holds only the first element of each block: the tree adds nothing": lambda k: k == 0,
        "leaves out what the odd threads loaded: the step s = 1 is missing": lambda k: k % 2 == 0,
        "leaves out what the upper half of the threads loaded: the step s = 128 is missing": (
            lambda k: k % BLOCK < BLOCK // 2
        ),
        "leaves out what every other warp loaded: the step s = 32 is missing": lambda k: k % 64 < 32,
        "holds only what the first warp of each block loaded": lambda k: k % BLOCK < 32,
    }
    if unit > BLOCK:
        lost["holds only the last lane of each warp: add what the shuffle returns, do not assign it"] = lambda k: (
            k % 32 == 31
        )
        lost["holds only the first of the two elements of each thread"] = lambda k: k < BLOCK
        lost["holds only what thread 0 loaded: its value from before the tree is stored"] = lambda k: k % BLOCK == 0
    return (
        KnownMistake(
            "first-block-only", f"{{name}} is the sum of the first {unit} elements", lambda x: total(x[:unit])
        ),
        KnownMistake(
            "first-block-only",
            "every block adds the same elements, those of block 0",
            lambda x: -(-x.numel() // unit) * total(x[:unit]),
        ),
        *(
            KnownMistake("missing-accumulation", f"{{name}} {sentence}", tree_part(unit, keep))
            for sentence, keep in lost.items()
        ),
        *_FORMULAS,
    )


_WALK = KnownMistake(
    "missing-accumulation",
    "{name} holds only the first iteration's elements: loop on, in steps of the whole grid",
    _part(lambda i, n: (i < -(-n // CHUNK) * 4 * BLOCK) | (i >= n // 4 * 4)),
)

VECTOR_MISTAKES = (
    _WALK,
    KnownMistake("tail-not-written", "{name} leaves out the last n % 4 elements", _part(lambda i, n: i < n // 4 * 4)),
    KnownMistake(
        "missing-accumulation", "{name} holds only the last n % 4 elements", _part(lambda i, n: i >= n // 4 * 4)
    ),
    KnownMistake(
        "wrong-formula",
        "{name} adds one of the four numbers of each float4",
        _part(lambda i, n: (i % 4 == 0) | (i >= n // 4 * 4)),
    ),
    KnownMistake(
        "missing-accumulation",
        "{name} holds only what the first warp of each block loaded",
        _part(lambda i, n: (i // 4 % BLOCK < 32) & (i < n // 4 * 4) | (i - n // 4 * 4 >= 0)),
    ),
    KnownMistake(
        "missing-accumulation",
        "{name} leaves out what the upper half of each warp loaded: the shuffle s = 16 is missing",
        _part(lambda i, n: (i // 4 % 32 < 16) & (i < n // 4 * 4) | (i - n // 4 * 4 >= 0)),
    ),
    KnownMistake("wrong-formula", "every block adds the last n % 4 elements; only one may", lambda x: _rest_again(x)),
    *_FORMULAS,
)

TRITON_MISTAKES = (
    KnownMistake(
        "missing-accumulation",
        "{name} holds only the first block of each program: loop on, and accumulate",
        _part(lambda i, n: i < -(-n // (4 * CHUNK)) * CHUNK),
    ),
    KnownMistake(
        "missing-accumulation",
        "{name} holds only the last block of each program: accumulate with +=, not =",
        lambda x: _last_blocks(x),
    ),
    KnownMistake("first-block-only", "every program adds all of x", lambda x: -(-x.numel() // (4 * CHUNK)) * total(x)),
    KnownMistake("padded-lanes", "each lane past the end adds 1", lambda x: total(x) + -x.numel() % CHUNK),
    KnownMistake(
        "tail-not-written", "{name} leaves out the last, partial block", _part(lambda i, n: i < n // CHUNK * CHUNK)
    ),
    *_FORMULAS,
)


def _last_blocks(x):
    blocks = -(-x.numel() // CHUNK)
    programs = -(-blocks // 4)
    return total(x[CHUNK * max(blocks - programs, 0) :])


def _rest_again(x):
    n = x.numel()
    return total(x) + ((n - 1) // CHUNK) * total(x[n // 4 * 4 :])
