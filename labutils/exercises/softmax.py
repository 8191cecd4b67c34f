"""Unit 11: softmax over the rows of a matrix, in Triton and in CUDA C++.

A row in which every entry is -inf has no softmax (0/0): the contract is NaN there, as in PyTorch, and only there.
"""

import torch

from ..spec.exercise import (
    Bound,
    Case,
    Contract,
    Cost,
    KernelExercise,
    KnownMistake,
    PlainExercise,
    Points,
    array,
    out,
    register,
)

# --- bytes of the naive softmax ------------------------------------------------------------------------------------


def _explain_naive(sizes, yours, expected) -> str | None:
    M, N, item = sizes["M"], sizes["N"], sizes["itemsize"]
    messages = {
        8 * M * N + 4 * M: "That counts elements. Each has `itemsize` bytes.",
        8 * M * N * item: "The vectors are missing: maxima and sums, M elements each, are written and read too.",
        (5 * M * N + 2 * M) * item: "Those are only the reads. What do the five lines write?",
        (3 * M * N + 2 * M) * item: "Those are only the writes. What do the five lines read?",
        2 * M * N * item: "That is the traffic of a fused kernel. Here every line reads its inputs from memory.",
        (8 * M * N + 2 * M) * item: "Each vector is written by one line and read by another: count both.",
        (7 * M * N + 4 * M) * item: "One pass over the matrix is missing: go through the lines again.",
        (6 * M * N + 4 * M) * item: "Two passes over the matrix are missing. Both `max` and `sum` read all of it.",
        (10 * M * N) * item: "A vector has M elements, not M·N: broadcasting reads one of them per row.",
    }
    return messages.get(yours)


register(
    PlainExercise(
        id="11_softmax/naive_bytes",
        title="Bytes that the naive softmax moves",
        entry="naive_bytes",
        points=Points(correct=1),
        reference=lambda M, N, itemsize: (8 * M * N + 4 * M) * itemsize,
        rtol=0.0,
        explain=_explain_naive,
        cases=(
            Case("a row of one element", {"M": 1, "N": 1, "itemsize": 4}),
            Case("3 × 5 in fp32", {"M": 3, "N": 5, "itemsize": 4}),
            Case("100 × 1000 in fp32", {"M": 100, "N": 1000, "itemsize": 4}),
            Case("16384 × 4096 in fp16", {"M": 16384, "N": 4096, "itemsize": 2}),
        ),
        draw=lambda rng: {
            "M": rng.randrange(1, 10**5),
            "N": rng.randrange(2, 10**5),
            "itemsize": rng.choice([1, 2, 4, 8]),
        },
    )
)


# --- what all softmax exercises share ------------------------------------------------------------------------------

MOVED = Bound("bytes moved per compulsory byte", "moved_bytes", "compulsory_bytes", at_most=1.02)


def magnitude(x):
    """The relative error of exp(x − m) is a few roundings of x − m, so it grows with |x − m|, also in the sum.

    Where exp gives 0 the error is 0.
    """
    y = torch.softmax(x, -1)
    distance = torch.where(y > 0, (x - x.amax(-1, keepdim=True)).abs(), 0.0)
    return y * (1 + distance + (y * distance).sum(-1, keepdim=True))


def terms(sizes) -> int:
    """Depth of a row's sum over lanes and trees, plus a few roundings of exp and of the division."""
    return sizes["N"] // 32 + 24


def _padded(x, value: float, block: int | None = None):
    """Softmax over rows padded with `value` to the next power of two (or a multiple of `block`)."""
    N = x.shape[1]
    width = 1 << (N - 1).bit_length() if block is None else -(-N // block) * block
    filled = torch.nn.functional.pad(x, (0, width - N), value=value)
    return torch.softmax(filled, 1)[:, :N]


def _unscaled(x):
    """exp in fp32, without subtracting the maximum first."""
    e = torch.exp(x.float())
    return (e / e.sum(1, keepdim=True)).double()


def _of_rows(x, rows: int):
    """The sum is taken over `rows` rows at a time, not over one."""
    e = torch.exp(x - x.amax(1, keepdim=True))
    filled = torch.nn.functional.pad(e.sum(1), (0, -len(x) % rows))
    sums = filled.reshape(-1, rows).sum(1).repeat_interleave(rows)[: len(x)]
    return e / sums[:, None]


def known(compute):
    """Let a known mistake never match real output where its own arithmetic gives NaN for a finite answer."""

    def mistake(x):
        y = compute(x)
        return torch.where(torch.isnan(y) & ~torch.isnan(torch.softmax(x, 1)), 2.0, y)

    return mistake


KNOWN_MISTAKES = (
    KnownMistake("no-max-subtraction", "exp overflows: subtract the row's maximum first", _unscaled),
    KnownMistake(
        "padded-lanes",
        "lanes past the end of the row hold 0 and add exp(0 − max) to the sum",
        lambda x: _padded(x, 0.0),
    ),
    KnownMistake(
        "wrong-formula",
        "{name} is exp(x − max), not divided by its sum",
        lambda x: torch.exp(x - x.amax(1, keepdim=True)),
    ),
    KnownMistake(
        "wrong-formula", "{name} is x − max: the exponential is missing", lambda x: x - x.amax(1, keepdim=True)
    ),
    KnownMistake("wrong-formula", "{name} is the logarithm of the softmax", lambda x: torch.log_softmax(x, 1)),
    KnownMistake(
        "wrong-formula",
        "the sum adds x, not the exponentials",
        lambda x: torch.exp(x - x.amax(1, keepdim=True)) / x.sum(1, keepdim=True),
    ),
    KnownMistake("wrong-formula", "{name} is 2^(x − max) over its sum: use exp, not exp2", lambda x: _base_two(x)),
    KnownMistake("wrong-formula", "{name} is the softmax of −x", known(lambda x: torch.softmax(-x, 1))),
    KnownMistake("transposed", "{name} is the softmax over columns, not rows", known(lambda x: torch.softmax(x, 0))),
    KnownMistake(
        "first-block-only",
        "every row of {name} is the softmax of row 0",
        known(lambda x: torch.softmax(x[:1], 1).expand_as(x)),
    ),
)


def _base_two(x):
    e = torch.exp2(x - x.amax(1, keepdim=True))
    return e / e.sum(1, keepdim=True)


def cases(large: tuple[int, int], most: int = 3000, cuda: bool = False) -> tuple[Case, ...]:
    """Row lengths around powers of two, difficult values and addresses; `most` is the longest row allowed.

    CUDA C++ kernels get pointers to contiguous fp32: no padded rows, no other types.
    """
    found = [
        Case("one element", {"M": 1, "N": 1}),
        Case("2 × 3", {"M": 2, "N": 3}, "position"),
        Case("3 × 1, a single column", {"M": 3, "N": 1}),
        Case("5 × 127, one short of a power of two", {"M": 5, "N": 127}, "position"),
        Case("4 × 128, a power of two", {"M": 4, "N": 128}, "wide"),
        Case("6 × 129, one more than a power of two", {"M": 6, "N": 129}, "position"),
        Case("17 × 250", {"M": 17, "N": 250})
        if cuda
        else Case("17 × 250, padded rows", {"M": 17, "N": 250}, layout="padded"),
        Case("9 × 700, logits up to ten thousand", {"M": 9, "N": 700}, "large"),
        Case("5 × 133, all logits far below zero", {"M": 5, "N": 133}, "below"),
        Case("8 × 243, one finite entry per row, the rest -inf", {"M": 8, "N": 243}, "lone"),
        Case("12 × 93, masked with -inf, one row completely", {"M": 12, "N": 93}, "masked"),
        Case("7 × 40, ties", {"M": 7, "N": 40}, "ties"),
        Case("7 × 997, a prime, not aligned to 16 bytes", {"M": 7, "N": 997}, layout="offset"),
        Case(f"{large[0]} × {large[1]}, many rows", {"M": large[0], "N": large[1]}, "position"),
    ]
    if most > 1024:
        found.insert(-1, Case(f"5 × {most}, long rows", {"M": 5, "N": most}, "position"))
    if not cuda:
        found.insert(-1, Case("20 × 999, fp16", {"M": 20, "N": 999}, dtype="float16"))
        found.insert(-1, Case("6 × 500, bf16, padded rows", {"M": 6, "N": 500}, layout="padded", dtype="bfloat16"))
    return tuple(found)


def draw(most: int):
    def sizes(rng) -> dict[str, int]:
        columns = [rng.randrange(2, 200), 2 ** rng.randrange(5, 10) + rng.choice([-1, 0, 1]), rng.randrange(300, most)]
        return {"M": rng.randrange(1, 40), "N": rng.choice(columns)}

    return sizes


def _softmax(name: str, title: str, points: Points, known_mistakes=KNOWN_MISTAKES, most: int = 3000, **more) -> None:
    register(
        KernelExercise(
            id=f"11_softmax/{name}",
            title=title,
            entry=name,
            points=points,
            arguments={"x": array("M", "N"), "out": out("M", "N")},
            reference=lambda x: torch.softmax(x, 1),
            magnitude=magnitude,
            contract=Contract(terms=terms),
            cost=lambda sizes, item: Cost(
                item * sizes["M"] * sizes["N"], item * sizes["M"] * sizes["N"], 5 * sizes["M"] * sizes["N"]
            ),
            cases=more.pop("cases", None) or cases((131, 97), most),
            draw=draw(most),
            tiny=Case("3 rows of 5", {"M": 3, "N": 5}, "integers"),
            bench=more.pop("bench", {"M": 16384, "N": 4096}),
            library=lambda x: torch.softmax(x, 1),
            known_mistakes=known_mistakes,
            **more,
        )
    )


_softmax("softmax", "Softmax, one row per program", Points(correct=3, bounds=(MOVED,)))


# --- persistent ----------------------------------------------------------------------------------------------------


def rows_per_program(N: int) -> int:
    """Rows of a tile in the persistent kernel's launcher."""
    return max(1, 1024 // max(128, 1 << (N - 1).bit_length()))


_softmax(
    "persistent_softmax",
    "Softmax, a persistent kernel",
    Points(correct=3, bounds=(MOVED,)),
    known_mistakes=(
        *KNOWN_MISTAKES,
        KnownMistake(
            "wrong-formula",
            "the sum is taken over all rows of the tile: reduce along axis 1 only",
            lambda x: _of_rows(x, rows_per_program(x.shape[1])),
        ),
        KnownMistake(
            "missing-accumulation",
            "each program computes its first tile in every iteration: the rows must depend on the loop variable",
            lambda x: torch.softmax(x, 1)[torch.arange(len(x)) % (8 * rows_per_program(x.shape[1]))],
        ),
    ),
    cases=cases((600, 64)),
)


# --- CUDA C++ ------------------------------------------------------------------------------------------------------

COALESCED = Bound(
    "sectors per load request", "global_load_sectors", "global_load_requests", at_most=5, reference=7 * 32, margin=3
)
"""A row of 997 elements begins anywhere in a sector. A kernel that loads each row three times is coalesced, too."""
WIDE = Bound(
    "bytes per load request of a warp",
    "global_load_bytes",
    "global_load_requests",
    at_least=480,
    reference=4 * 32 * 2048,
    margin=3,
)


def _sums_by(group, x):
    """The exponentials, and their sums over the columns to which `group` assigns the same number."""
    e = torch.exp(x - x.amax(1, keepdim=True))
    return e, torch.zeros(len(x), int(group.max()) + 1, dtype=x.dtype).index_add_(1, group, e)


def _own_sums(group):
    """Each column divided by the sum of its own group, `group(N)`, not by the row's."""

    def mistake(x):
        which = group(x.shape[1])
        e, sums = _sums_by(which, x)
        return e / sums[:, which]

    return mistake


def _apart(who: str, group) -> KnownMistake:
    return KnownMistake(
        "missing-accumulation",
        f"each {who} divides by its own sum: add these sums over the row first",
        _own_sums(group),
    )


def block_threads(N: int) -> int:
    """Threads per block in the launcher of block_softmax."""
    return max(64, 32 * -(-N // 1024))


def threads_of(N: int):
    """The thread of block_softmax that has each column: quads, or single columns, are dealt to the threads in turn."""
    columns = torch.arange(N)
    return (columns if N % 4 else columns // 4) % block_threads(N)


_softmax(
    "warp_softmax",
    "Softmax, one warp per row, in CUDA C++",
    Points(correct=2, bounds=(MOVED, COALESCED)),
    known_mistakes=(
        *KNOWN_MISTAKES,
        _apart("lane", lambda N: torch.arange(N) % 32),
        KnownMistake(
            "missing-accumulation",
            "only lane 0 divides by the complete sum: after __shfl_down_sync the other lanes have partial sums",
            lambda x: _shuffled_down(x),
        ),
    ),
    most=1024,
    language="cuda",
    cases=cases((70, 96), most=1024, cuda=True) + (Case("5 × 1024, the longest row", {"M": 5, "N": 1024}, "position"),),
    bench={"M": 65536, "N": 1024},
)
_softmax(
    "block_softmax",
    "Softmax, one block per row, in CUDA C++",
    Points(correct=3, bounds=(MOVED, WIDE)),
    known_mistakes=(
        *KNOWN_MISTAKES,
        _apart("thread", threads_of),
        _apart("warp", lambda N: threads_of(N) // 32),
        KnownMistake(
            "missing-accumulation",
            "only the sums of the first four warps are added",
            lambda x: _first_warps(x),
        ),
    ),
    most=3000,
    language="cuda",
    cases=cases((40, 97), cuda=True)
    + (
        Case("5 × 2052, quads beyond the second warp", {"M": 5, "N": 2052}, "position"),
        Case("5 × 5000, more than four warps", {"M": 5, "N": 5000}, "position"),
        # all threads have 32 numbers, and each of the 32 is the finite one in some row: none may miss in the maximum
        Case("32 × 2048, one finite entry per row", {"M": 32, "N": 2048}, "lone"),
    ),
)


def _first_warps(x):
    e, sums = _sums_by(threads_of(x.shape[1]) // 32, x)
    return e / sums[:, :4].sum(1, keepdim=True)


def _shuffled_down(x):
    e = torch.exp(x - x.amax(1, keepdim=True))
    lanes = torch.nn.functional.pad(e, (0, -e.shape[1] % 32)).reshape(len(x), -1, 32).sum(1)
    lane = torch.arange(32)
    for s in (16, 8, 4, 2, 1):
        lanes = lanes + lanes[:, torch.where(lane + s < 32, lane + s, lane)]
    return e / lanes[:, torch.arange(x.shape[1]) % 32]
