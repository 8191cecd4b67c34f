"""Unit 15: one matrix product in CUDA C++, seven times. Five levels in fp32, then two on tensor cores."""

import torch

from ..exercise import (
    Bound,
    Case,
    Contract,
    Cost,
    KernelExercise,
    PlainExercise,
    Points,
    Suspect,
    array,
    out,
    register,
)
from ._numbers import sentence_for

# --- ledgers -------------------------------------------------------------------------------------------------------


def _intensity(block_m, block_n, itemsize):
    return 2 * block_m * block_n / ((block_m + block_n) * itemsize)


def _explain_intensity(sizes, yours, expected) -> str | None:
    m, n, item = sizes["block_m"], sizes["block_n"], sizes["itemsize"]
    said = {
        expected / 2: "A multiply-add is two FLOPs.",
        expected * item: "That is for each element. An element has `itemsize` bytes.",
        2 * m * n / (m * n * item): "A block reads a column of A and a row of B for each step, not whole tiles of C.",
        1 / expected: "Turn the fraction round: FLOPs for each byte.",
        2 * m * n / ((m + n + m * n) * item): "C is not read in each step: its sums stay in registers.",
        2 / (2 * item): "That is without sharing: each thread reads its own two numbers.",
    }
    return sentence_for(yours, said)


register(
    PlainExercise(
        id="15_matmul_cuda/tile_intensity",
        title="FLOPs for each byte that a tile loads",
        entry="tile_intensity",
        points=Points(correct=1),
        reference=_intensity,
        explain=_explain_intensity,
        cases=(
            Case("no tile: 1 × 1, fp32", {"block_m": 1, "block_n": 1, "itemsize": 4}),
            Case("32 × 32, fp32", {"block_m": 32, "block_n": 32, "itemsize": 4}),
            Case("128 × 128, fp32", {"block_m": 128, "block_n": 128, "itemsize": 4}),
            Case("128 × 256, fp16", {"block_m": 128, "block_n": 256, "itemsize": 2}),
            Case("64 × 16, fp16", {"block_m": 64, "block_n": 16, "itemsize": 2}),
        ),
        draw=lambda rng: {
            "block_m": rng.randrange(1, 300),
            "block_n": rng.randrange(1, 300),
            "itemsize": rng.choice([1, 2, 4]),
        },
    )
)


def _explain_reads(sizes, yours, expected) -> str | None:
    m, n = sizes["thread_m"], sizes["thread_n"]
    said = {
        m + n: "That is for each step, in which a thread does thread_m · thread_n multiply-adds.",
        2: "Each number that a thread has read serves a whole row or column of its elements.",
        1 / expected: "Turn the fraction round: reads for each multiply-add.",
        expected / 2: "A multiply-add counts once here, as one instruction.",
        (m + n) / (2 * m * n): "A multiply-add counts once here, as one instruction.",
    }
    return sentence_for(yours, said)


register(
    PlainExercise(
        id="15_matmul_cuda/shared_reads",
        title="Reads of shared memory for each multiply-add",
        entry="shared_reads",
        points=Points(correct=1),
        reference=lambda thread_m, thread_n: (thread_m + thread_n) / (thread_m * thread_n),
        explain=_explain_reads,
        cases=(
            Case("one element", {"thread_m": 1, "thread_n": 1}),
            Case("a column of 8", {"thread_m": 8, "thread_n": 1}),
            Case("8 × 8", {"thread_m": 8, "thread_n": 8}),
            Case("4 × 16", {"thread_m": 4, "thread_n": 16}),
        ),
        draw=lambda rng: {"thread_m": rng.randrange(1, 20), "thread_n": rng.randrange(1, 20)},
    )
)


# --- the ladder ----------------------------------------------------------------------------------------------------


def _sizes(M, N, K):
    return {"M": M, "N": N, "K": K}


def _cases(tile: int, depth: int, last: Case, half: bool) -> tuple[Case, ...]:
    """Sizes around a tile, K around its depth. `last` is the case that is counted: whole tiles only."""
    values = Case("40 × 40, K = 24: wide range of values", _sizes(40, 40, 24), "wide")
    if half:  # sums of a wide range leave fp16
        values = Case("40 × 40, K = 24: ties", _sizes(40, 40, 24), "ties")
    return (
        Case("one element", _sizes(1, 1, 1)),
        Case("2 × 3, K = 4", _sizes(2, 3, 4), "position"),
        Case(f"{tile - 1} × 7, K = {depth - 1}: one short", _sizes(tile - 1, 7, depth - 1), "position"),
        Case(f"5 × {tile + 1}, K = {depth + 1}: one more", _sizes(5, tile + 1, depth + 1), "position"),
        Case("33 × 65, K = 17: edges everywhere", _sizes(33, 65, 17), "position"),
        Case("1 × 127, K = 50: a single row", _sizes(1, 127, 50), "position"),
        Case("30 × 20, K = 300: a long sum", _sizes(30, 20, 300)),
        Case("48 × 40, K = 70: small integers, compared bit for bit", _sizes(48, 40, 70), exact=True),
        Case("20 × 36, K = 33: not aligned to 16 bytes", _sizes(20, 36, 33), layout="offset"),
        values,
        last,
    )


def _draw(rng) -> dict[str, int]:
    M, N = rng.choice([(rng.randrange(1, 70), rng.randrange(1, 70)), (128 + rng.choice([-1, 0, 1]), 30), (9, 129)])
    return _sizes(M, N, rng.choice([rng.randrange(1, 80), 32 * rng.randrange(1, 4) + rng.choice([-1, 0, 1])]))


def _product(a, b):
    return a @ b


def _block(size, last):
    """The product of one block of K alone; the right one where there is no other."""

    def product(a, b):
        K = a.shape[1]
        cut = slice((K - 1) // size * size, K) if last else slice(0, size)
        return a[:, cut] @ b[cut]

    return product


def _where(a, b, keep):
    """The sum of the products whose k passes `keep(k, K)`."""
    K = a.shape[1]
    chosen = keep(torch.arange(K), K)
    return a[:, chosen] @ b[chosen]


def _but(a, b, place):
    """All products but one; all where there is only one, because a 0 has too many causes to name one."""
    return _where(a, b, lambda k, K: (k != place % K) | (K == 1))


def _suspects(depth: int) -> tuple[Suspect, ...]:
    return (
        Suspect(
            "missing-accumulation", f"{{name}} holds only the first {depth} products of each sum", _block(depth, False)
        ),
        Suspect(
            "missing-accumulation",
            f"{{name}} holds only the last {depth} products of each sum, or fewer",
            _block(depth, True),
        ),
        Suspect(
            "missing-accumulation",
            f"{{name}} holds only the first half of every {depth} products",
            lambda a, b: _where(a, b, lambda k, K: k % depth < depth // 2),
        ),
        Suspect("missing-accumulation", "{name} lacks the last product of each sum", lambda a, b: _but(a, b, -1)),
        Suspect("missing-accumulation", "{name} lacks the first product of each sum", lambda a, b: _but(a, b, 0)),
        Suspect(
            "missing-accumulation",
            f"{{name}} lacks all but whole blocks of {depth} products",
            lambda a, b: a[:, : a.shape[1] // depth * depth] @ b[: a.shape[1] // depth * depth],
        ),
        Suspect(
            "missing-accumulation",
            "{name} has every other product: the step along k is too large",
            lambda a, b: a[:, ::2] @ b[::2],
        ),
        Suspect("wrong-formula", "{name} is |a| @ |b|", lambda a, b: a.abs() @ b.abs()),
        Suspect(
            "wrong-formula",
            "{name} is the sum of a and b, not of their products",
            lambda a, b: a.sum(1, keepdim=True) + b.sum(0, keepdim=True),
        ),
    )


FROM_MEMORY = "sectors loaded for each one stored"


def _loads(at_most: float) -> Bound:
    """K · (1 / block_m + 1 / block_n), as both loads and stores are of whole sectors."""
    return Bound(FROM_MEMORY, "global_load_sectors", "global_store_sectors", at_most=at_most)


def _reads(at_most: float) -> Bound:
    return Bound(
        "bytes read from shared memory for each one stored", "shared_load_bytes", "global_store_bytes", at_most=at_most
    )


NO_CONFLICTS = Bound(
    "wavefronts of shared memory for each one needed",
    "shared_load_wavefronts",
    "ideal_shared_load_wavefronts",
    at_most=1.01,
)


def _level(name: str, title: str, points: Points, tile: int, depth: int, last: Case, **more) -> None:
    half = more.pop("half", False)
    register(
        KernelExercise(
            id=f"15_matmul_cuda/{name}",
            title=title,
            entry=name,
            points=points,
            arguments={"a": array("M", "K"), "b": array("K", "N"), "c": out("M", "N")},
            reference=_product,
            magnitude=lambda a, b: a.abs() @ b.abs(),
            contract=Contract(dtype="float16" if half else "float32", terms=lambda sizes: sizes["K"]),
            cost=lambda sizes, item: Cost(
                item * sizes["K"] * (sizes["M"] + sizes["N"]),
                item * sizes["M"] * sizes["N"],
                2 * sizes["M"] * sizes["N"] * sizes["K"],
            ),
            cases=_cases(tile, depth, last, half),
            draw=_draw,
            tiny=Case("2 × 3, K = 4", _sizes(2, 3, 4), "integers"),
            bench=_sizes(4096, 4096, 4096),
            library=_product,
            language="cuda",
            suspects=_suspects(depth),
        )
    )


SMALL = Case("64 × 96, K = 64: whole tiles", _sizes(64, 96, 64))
WHOLE = Case("128 × 128, K = 64: one whole tile", _sizes(128, 128, 64))

_level(
    "naive",
    "Level 1: neighbours in the right direction",
    Points(
        correct=1,
        bounds=(
            Bound("sectors for each load request", "global_load_sectors", "global_load_requests", at_most=3),
            Bound("sectors for each store request", "global_store_sectors", "global_store_requests", at_most=4),
        ),
    ),
    32,
    32,
    SMALL,
)
_level(
    "shared",
    "Level 2: a tile in shared memory",
    Points(correct=2, bounds=(_loads(4.01), NO_CONFLICTS)),
    32,
    32,
    SMALL,
)
_level(
    "register",
    "Level 3: a tile in registers",
    Points(correct=2, bounds=(_loads(1.01), _reads(64 * 0.25 * 1.01))),
    128,
    8,
    WHOLE,
)
_level(
    "vector",
    "Level 4: vector loads",
    Points(
        correct=2,
        bounds=(
            Bound("bytes for each load request", "global_load_bytes", "global_load_requests", at_least=510),
            Bound("bytes for each read of shared memory", "shared_load_bytes", "shared_load_requests", at_least=510),
            NO_CONFLICTS,
        ),
    ),
    128,
    8,
    WHOLE,
)
_level(
    "double",
    "Level 5: two buffers",
    Points(correct=2, bounds=(Bound("barriers in 8 tiles along K, and one before", "barriers", at_most=9),)),
    128,
    16,
    WHOLE,
)
_level(
    "tensor",
    "Level 6: tensor cores",
    Points(correct=3, bounds=(_loads(1.01),)),
    128,
    32,
    WHOLE,
    half=True,
)
_level(
    "pipelined",
    "Level 7: asynchronous copies",
    Points(correct=3, bounds=(Bound("barriers in 2 tiles along K, and one at the end", "barriers", at_most=3),)),
    128,
    32,
    WHOLE,
    half=True,
)
