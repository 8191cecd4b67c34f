"""Unit 16: Hopper's copy engine, warp group products, and the matrix product that they make together."""

from ..spec.exercise import (
    Bound,
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
from ._matmul import cost, known_mistakes, magnitude, mnk
from ._numbers import sentence_for

SM = 90
"""These instructions exist on compute capability 9.0 only."""

SHARED = 227 * 1024
"""Bytes of shared memory that a block can have there."""


# --- ledgers -------------------------------------------------------------------------------------------------------


def _phase(block_m, block_n, block_k, itemsize):
    return (block_m + block_n) * block_k * itemsize


def _explain_phase(sizes, yours, expected) -> str | None:
    m, n, k, item = (sizes[name] for name in ("block_m", "block_n", "block_k", "itemsize"))
    return sentence_for(
        yours,
        {
            expected / item: "That is in elements; the barrier counts bytes.",
            m * n * item: "The tile of C is not copied: what arrives is a tile of A and one of B.",
            m * k * item: "A's tile alone: B's arrives at the same barrier.",
            n * k * item: "B's tile alone: A's arrives at the same barrier.",
            m * n * k * item: "Tiles have two sides: block_m × block_k and block_n × block_k.",
            2 * expected: "Each byte arrives once.",
        },
    )


register(
    PlainExercise(
        id="16_matmul_hopper/phase_bytes",
        title="Bytes that one phase of the barrier waits for",
        entry="phase_bytes",
        points=Points(correct=1),
        reference=_phase,
        explain=_explain_phase,
        cases=(
            Case("128 × 128 × 64, fp16", {"block_m": 128, "block_n": 128, "block_k": 64, "itemsize": 2}),
            Case("128 × 256 × 64, fp16", {"block_m": 128, "block_n": 256, "block_k": 64, "itemsize": 2}),
            Case("64 × 256 × 128, fp8", {"block_m": 64, "block_n": 256, "block_k": 128, "itemsize": 1}),
            Case("64 × 8 × 32, tf32", {"block_m": 64, "block_n": 8, "block_k": 32, "itemsize": 4}),
        ),
        draw=lambda rng: {
            "block_m": 64 * rng.randrange(1, 5),
            "block_n": 8 * rng.randrange(1, 33),
            "block_k": 16 * rng.randrange(1, 9),
            "itemsize": rng.choice([1, 2, 4]),
        },
    )
)


def _stages(block_m, block_n, block_k, other):
    return (SHARED - other) // ((block_m + block_n) * block_k * 2)


def _explain_stages(sizes, yours, expected) -> str | None:
    stage, other = _phase(sizes["block_m"], sizes["block_n"], sizes["block_k"], 2), sizes["other"]
    return sentence_for(
        yours,
        {
            (SHARED - other) / stage: "Half a stage is no stage: round down.",
            -(-(SHARED - other) // stage): "Rounded up, the last stage does not fit.",
            SHARED // stage: "`other` bytes are taken already.",
            (228 * 1024 - other) // stage: "An SM has 228 KB, but 1 KB of them is the system's: a block gets 227.",
            (227000 - other) // stage: "A KB of shared memory is 1024 bytes.",
            (SHARED - other) // (stage // 2): "An element of fp16 has two bytes.",
        },
    )


register(
    PlainExercise(
        id="16_matmul_hopper/stages",
        title="Stages of a ring that fit into shared memory",
        entry="stages",
        points=Points(correct=1),
        reference=_stages,
        explain=_explain_stages,
        cases=(
            Case("128 × 128 × 64, 1 KB taken", {"block_m": 128, "block_n": 128, "block_k": 64, "other": 1024}),
            Case("128 × 256 × 64, 32 KB taken", {"block_m": 128, "block_n": 256, "block_k": 64, "other": 32768}),
            Case("128 × 256 × 64, a whole tile of C", {"block_m": 128, "block_n": 256, "block_k": 64, "other": 65536}),
            Case("64 × 64 × 64, nothing taken", {"block_m": 64, "block_n": 64, "block_k": 64, "other": 0}),
            Case("256 × 256 × 128: fits once", {"block_m": 256, "block_n": 256, "block_k": 128, "other": 64}),
        ),
        draw=lambda rng: {
            "block_m": 64 * rng.randrange(1, 4),
            "block_n": 32 * rng.randrange(1, 9),
            "block_k": rng.choice([32, 64, 128]),
            "other": 8 * rng.randrange(0, 9000),
        },
    )
)


def _swizzled(row, column):
    return row * 128 + ((column // 8) ^ (row % 8)) * 16 + column % 8 * 2


def _explain_swizzled(sizes, yours, expected) -> str | None:
    r, c = sizes["row"], sizes["column"]
    return sentence_for(
        yours,
        {
            r * 128 + c * 2: "That is where it lies without a swizzle.",
            expected / 2: "That is in elements; the question is for bytes.",
            r * 128 + ((c // 8 + r) % 8) * 16 + c % 8 * 2: "The piece's number is joined with the row's by XOR.",
            r * 128 + (c ^ (r % 8)) * 2: "Pieces of 16 bytes change places; within a piece all stays as it is.",
            r * 128 + ((c // 8) ^ r) * 16 + c % 8 * 2: "Only the last three bits of the row's number count.",
            r * 128 + ((c // 8) ^ (r % 8)) * 16: "And within the piece?",
        },
    )


register(
    PlainExercise(
        id="16_matmul_hopper/swizzled",
        title="Where the swizzle puts an element",
        entry="swizzled",
        points=Points(correct=1),
        reference=_swizzled,
        explain=_explain_swizzled,
        cases=(
            Case("the first", {"row": 0, "column": 0}),
            Case("row 0 stays as it is", {"row": 0, "column": 27}),
            Case("row 1", {"row": 1, "column": 0}),
            Case("row 5, column 42", {"row": 5, "column": 42}),
            Case("row 13: as row 5", {"row": 13, "column": 42}),
            Case("the last", {"row": 127, "column": 63}),
        ),
        draw=lambda rng: {"row": rng.randrange(1, 256), "column": rng.randrange(64)},
    )
)


def _intensity(block_m, block_n, cluster):
    return 2 * block_m * block_n / (2 * (block_m + block_n / cluster))


def _explain_intensity(sizes, yours, expected) -> str | None:
    m, n, c = sizes["block_m"], sizes["block_n"], sizes["cluster"]
    return sentence_for(
        yours,
        {
            m * n / (m + n): "That is with the whole tile of B fetched by each block.",
            m * n / (m / c + n): "The blocks lie below each other: they share columns, so B, not A.",
            c * m * n / (m + n): "A's tile is each block's own: only B's share shrinks.",
            expected * 2: "An element has two bytes.",
            expected / 2: "A multiply-add is two FLOPs.",
            1 / expected: "Turn the fraction round: FLOPs for each byte.",
        },
    )


register(
    PlainExercise(
        id="16_matmul_hopper/cluster_intensity",
        title="FLOPs for each byte that a block fetches",
        entry="cluster_intensity",
        points=Points(correct=1),
        reference=_intensity,
        explain=_explain_intensity,
        cases=(
            Case("128 × 128, no cluster", {"block_m": 128, "block_n": 128, "cluster": 1}),
            Case("128 × 256, no cluster", {"block_m": 128, "block_n": 256, "cluster": 1}),
            Case("128 × 256, two blocks", {"block_m": 128, "block_n": 256, "cluster": 2}),
            Case("64 × 256, four blocks", {"block_m": 64, "block_n": 256, "cluster": 4}),
        ),
        draw=lambda rng: {
            "block_m": 64 * rng.randrange(1, 5),
            "block_n": 8 * rng.randrange(1, 33),
            "cluster": rng.choice([1, 2, 4, 8]),
        },
    )
)


# --- a copy through shared memory ----------------------------------------------------------------------------------

NO_LOADS = Bound("loads from memory by threads", "global_load_requests", at_most=0)
NO_STORES = Bound("stores to memory by threads", "global_store_requests", at_most=0)


def _matrix(M, N):
    return {"M": M, "N": N}


register(
    KernelExercise(
        id="16_matmul_hopper/scale",
        title="A tile in and out by TMA",
        entry="scale",
        points=Points(correct=2, bounds=(NO_LOADS, NO_STORES)),
        arguments={"x": array("M", "N"), "factor": Number(), "y": out("M", "N")},
        reference=lambda x, factor: factor * x,
        magnitude=lambda x, factor: abs(factor) * x.abs(),
        contract=Contract(dtype="float16", terms=2),
        cost=lambda sizes, item: Cost(
            item * sizes["M"] * sizes["N"], item * sizes["M"] * sizes["N"], sizes["M"] * sizes["N"]
        ),
        cases=(
            Case("one element", _matrix(1, 1)),
            Case("3 × 17", _matrix(3, 17), "position"),
            Case("64 × 64: one whole tile", _matrix(64, 64), "position"),
            Case("63 × 55: part of a tile", _matrix(63, 55), "position"),
            Case("65 × 72: four tiles, three of them ragged", _matrix(65, 72), "position"),
            Case("130 × 200", _matrix(130, 200)),
            Case("20 × 36: not aligned to 16 bytes", _matrix(20, 36), layout="offset"),
            Case("40 × 40: ties", _matrix(40, 40), "ties"),
            Case("128 × 192: whole tiles", _matrix(128, 192)),
        ),
        draw=lambda rng: _matrix(rng.randrange(1, 150), rng.randrange(1, 200)),
        tiny=Case("2 × 8", _matrix(2, 8), "integers"),
        bench=_matrix(16384, 16384),
        library=lambda x, factor: x * factor,
        language="cuda",
        only=SM,
        known_mistakes=(
            KnownMistake("wrong-formula", "{name} is a copy of x", lambda x, factor: x),
            KnownMistake("wrong-formula", "{name} is factor² · x", lambda x, factor: factor**2 * x),
        ),
    )
)


# --- products ------------------------------------------------------------------------------------------------------


def _by_rows(mistake: KnownMistake) -> KnownMistake:
    """The same mistake for b stored N × K."""
    return KnownMistake(mistake.diagnosis, mistake.sentence, lambda a, b: mistake.compute(a, b.T))


def _pieces(a, b, keep):
    """The sum of the products whose 16-deep piece of 64 passes `keep(piece)`."""
    chosen = [k for k in range(a.shape[1]) if keep(k % 64 // 16)]
    return a[:, chosen] @ b[:, chosen].T


OWN = (
    KnownMistake(
        "missing-accumulation",
        "{name} has only the first 16 products of every 64: one wgmma is 16 deep",
        lambda a, b: _pieces(a, b, lambda piece: piece == 0),
    ),
    KnownMistake(
        "missing-accumulation",
        "{name} lacks the first 16 products of every 64",
        lambda a, b: _pieces(a, b, lambda piece: piece > 0),
    ),
    KnownMistake(
        "missing-accumulation",
        "{name} lacks the last 16 products of every 64",
        lambda a, b: _pieces(a, b, lambda piece: piece < 3),
    ),
)


def _product(name: str, title: str, points: Points, block_n: int) -> None:
    register(
        KernelExercise(
            id=f"16_matmul_hopper/{name}",
            title=title,
            entry=name,
            points=points,
            arguments={"a": array("M", "K"), "b": array("N", "K"), "c": out("M", "N")},
            reference=lambda a, b: a @ b.T,
            magnitude=lambda a, b: magnitude(a, b.T),
            contract=Contract(dtype="float16", terms=lambda sizes: sizes["K"]),
            cost=cost,
            cases=(
                Case("one element", mnk(1, 1, 1)),
                Case("5 × 17, K = 23", mnk(5, 17, 23), "position"),
                Case("64 × 64, K = 16: one wgmma deep", mnk(64, 64, 16), "position"),
                Case("127 × 57, K = 64: one step", mnk(127, 57, 64)),
                Case("40 × 40, K = 65: a little of a second step", mnk(40, 40, 65), "position"),
                Case("129 × 72, K = 136: two blocks below each other", mnk(129, 72, 136)),
                Case(f"8 × {block_n + 8}, K = 128: two blocks side by side", mnk(8, block_n + 8, 128)),
                Case("30 × 24, K = 648: more steps than stages", mnk(30, 24, 648)),
                Case("48 × 40, K = 320: small integers, compared bit for bit", mnk(48, 40, 320), exact=True),
                Case("20 × 36, K = 33: not aligned to 16 bytes", mnk(20, 36, 33), layout="offset"),
                Case("40 × 40, K = 24: ties", mnk(40, 40, 24), "ties"),
                Case(f"128 × {block_n}, K = 192: one whole tile", mnk(128, block_n, 192)),
            ),
            draw=lambda rng: mnk(
                rng.choice([rng.randrange(1, 130), 128 + rng.choice([-1, 0, 1])]),
                rng.choice([rng.randrange(1, 150), block_n + rng.choice([-1, 0, 1])]),
                rng.choice([rng.randrange(1, 300), 64 * rng.randrange(1, 8) + rng.choice([-1, 0, 1])]),
            ),
            tiny=Case("2 × 8, K = 8", mnk(2, 8, 8), "integers"),
            bench=mnk(4096, 4096, 4096),
            library=lambda a, b: a @ b.T,
            language="cuda",
            only=SM,
            known_mistakes=(*OWN, *map(_by_rows, known_mistakes(64))),
        )
    )


_product(
    "tile",
    "One group of warps, one tile",
    Points(correct=3, bounds=(NO_LOADS, Bound("wgmmas of 64 × 128 × 16 in the largest case", "wgmmas", at_least=24))),
    128,
)
_product(
    "ring",
    "A ring of tiles between one warp and eight",
    Points(
        correct=4,
        bounds=(
            NO_LOADS,
            Bound("wgmmas of 64 × 256 × 16 in the largest case", "wgmmas", at_least=24),
            Bound("barriers of the whole block", "barriers", at_most=1),
        ),
    ),
    256,
)
