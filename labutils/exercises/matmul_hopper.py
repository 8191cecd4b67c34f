"""Unit 16: Hopper's TMA and WGMMA, and the matrix product built from them."""

from dataclasses import replace

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

TILES, RING = "16_matmul_hopper", "16_matmul_ring"
"""The two notebooks of unit 16."""

SM = 90
"""The only compute capability with these instructions: 9.0."""

SHARED = 227 * 1024
"""Bytes of shared memory that a block can use on compute capability 9.0."""


# --- ledgers -------------------------------------------------------------------------------------------------------


def _phase(block_m, block_n, block_k, itemsize):
    return (block_m + block_n) * block_k * itemsize


def _explain_phase(sizes, yours, expected) -> str | None:
    m, n, k, item = (sizes[name] for name in ("block_m", "block_n", "block_k", "itemsize"))
    return sentence_for(
        yours,
        {
            expected / item: "That counts elements; the mbarrier counts bytes.",
            m * n * item: "The tile of C is not copied: a tile of A and a tile of B arrive.",
            m * k * item: "That is A's tile only: B's tile arrives at the same mbarrier.",
            n * k * item: "That is B's tile only: A's tile arrives at the same mbarrier.",
            m * n * k * item: "The tiles are block_m × block_k and block_n × block_k: add their sizes.",
            2 * expected: "That is twice as much: each byte arrives once.",
        },
    )


register(
    PlainExercise(
        id=f"{TILES}/phase_bytes",
        title="Bytes that one mbarrier phase waits for",
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
            (SHARED - other) / stage: "The number of stages is an integer: round down.",
            -(-(SHARED - other) // stage): "Rounded up, the last stage does not fit.",
            SHARED // stage: "Subtract the `other` bytes that are already taken.",
            (228 * 1024 - other) // stage: "An SM has 228 KB, but CUDA reserves 1 KB per block: 227 KB remain.",
            (227000 - other) // stage: "1 KB of shared memory is 1024 bytes.",
            (SHARED - other) // (stage // 2): "An fp16 element has two bytes.",
        },
    )


register(
    PlainExercise(
        id=f"{RING}/stages",
        title="Stages that fit in shared memory",
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
            r * 128 + c * 2: "That is the address without a swizzle.",
            expected / 2: "That is an index in elements; return bytes.",
            r * 128 + ((c // 8 + r) % 8) * 16 + c % 8 * 2: "Combine chunk and row number by XOR, not by addition.",
            r * 128 + (c ^ (r % 8)) * 2: "The swizzle moves chunks of 16 bytes; the order within a chunk stays.",
            r * 128 + ((c // 8) ^ r) * 16 + c % 8 * 2: "Only the last three bits of the row number count: row mod 8.",
            r * 128 + ((c // 8) ^ (r % 8)) * 16: "That is the start of the chunk. Add the offset within the chunk.",
        },
    )


register(
    PlainExercise(
        id=f"{TILES}/swizzled",
        title="Address of an element in a swizzled tile",
        entry="swizzled",
        points=Points(correct=1),
        reference=_swizzled,
        explain=_explain_swizzled,
        cases=(
            Case("the first element", {"row": 0, "column": 0}),
            Case("row 0 is not changed", {"row": 0, "column": 27}),
            Case("row 1", {"row": 1, "column": 0}),
            Case("row 5, column 42", {"row": 5, "column": 42}),
            Case("row 13: as row 5", {"row": 13, "column": 42}),
            Case("the last element", {"row": 127, "column": 63}),
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
            m * n / (m + n): "That is with each block fetching the whole tile of B.",
            m * n / (m / c + n): "The blocks are one above the other: they share columns, so B, not A.",
            c * m * n / (m + n): "Each block fetches its own tile of A: only B is shared.",
            expected * 2: "An fp16 element has two bytes.",
            expected / 2: "A multiply-add is two FLOPs.",
            1 / expected: "Invert the fraction: FLOPs per byte.",
        },
    )


register(
    PlainExercise(
        id=f"{RING}/cluster_intensity",
        title="FLOPs per byte that a block fetches",
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

NO_LOADS = Bound("global loads by threads (not by the TMA)", "global_load_requests", at_most=0)
NO_STORES = Bound("global stores by threads (not by the TMA)", "global_store_requests", at_most=0)


def _once(bound: Bound, way: str, boxes: int) -> Bound:
    """The TMA does the work of threads, and each box only once."""
    return replace(bound, also=Bound(f"boxes that the TMA {way}s", f"tma_{way}s", at_most=boxes))


def _matrix(M, N):
    return {"M": M, "N": N}


register(
    KernelExercise(
        id=f"{TILES}/scale",
        title="Copy a tile in and out by TMA",
        entry="scale",
        points=Points(correct=2, bounds=(_once(NO_LOADS, "load", 12), _once(NO_STORES, "store", 12))),  # of 130 × 200
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
            Case("20 × 36: rows not aligned to 16 bytes", _matrix(20, 36), layout="offset"),
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
    """The same mistake for b stored (N, K)."""
    return KnownMistake(mistake.diagnosis, mistake.sentence, lambda a, b: mistake.compute(a, b.T))


def _quarters(a, b, keep):
    """The sum of the products whose quarter of every 64 along K, numbered 0 to 3, passes `keep(quarter)`."""
    chosen = [k for k in range(a.shape[1]) if keep(k % 64 // 16)]
    return a[:, chosen] @ b[:, chosen].T


OWN = (
    KnownMistake(
        "missing-accumulation",
        "{name} sums only the first 16 of every 64 products: one wgmma is 16 deep",
        lambda a, b: _quarters(a, b, lambda quarter: quarter == 0),
    ),
    KnownMistake(
        "missing-accumulation",
        "{name} misses the first 16 of every 64 products",
        lambda a, b: _quarters(a, b, lambda quarter: quarter > 0),
    ),
    KnownMistake(
        "missing-accumulation",
        "{name} misses the last 16 of every 64 products",
        lambda a, b: _quarters(a, b, lambda quarter: quarter < 3),
    ),
)


def _product(unit: str, name: str, title: str, points: Points, block_n: int, more: tuple[Case, ...] = ()) -> None:
    register(
        KernelExercise(
            id=f"{unit}/{name}",
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
                Case("127 × 57, K = 64: one iteration", mnk(127, 57, 64)),
                Case("40 × 40, K = 65: one element into a second iteration", mnk(40, 40, 65), "position"),
                Case("129 × 72, K = 136: two blocks, one above the other", mnk(129, 72, 136)),
                Case(f"8 × {block_n + 8}, K = 128: two blocks side by side", mnk(8, block_n + 8, 128)),
                Case("30 × 24, K = 648: more iterations than stages", mnk(30, 24, 648)),
                Case("48 × 40, K = 320: small integers, compared bit for bit", mnk(48, 40, 320), exact=True),
                Case("20 × 36, K = 33: rows not aligned to 16 bytes", mnk(20, 36, 33), layout="offset"),
                Case("40 × 40, K = 24: ties", mnk(40, 40, 24), "ties"),
                *more,
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


def _products(columns: int) -> Bound:
    """24 products in the largest case. Threads that multiply by themselves read 500 kB and more from shared memory; an
    epilogue through it reads at most 4 bytes for each of `columns` x 128 elements."""
    read = Bound("bytes that threads read from shared memory", "shared_load_bytes", at_most=4 * 128 * columns)
    return Bound(f"wgmmas of 64 × {columns} × 16 in the largest case", "wgmmas", at_least=24, also=read)


_product(TILES, "tile", "One warpgroup, one tile", Points(correct=3, bounds=(NO_LOADS, _products(128))), 128)
_product(
    RING,
    "ring",
    "A ring buffer between one producer warp and eight consumer warps",
    Points(
        correct=4,
        bounds=(
            NO_LOADS,
            _products(256),
            Bound("__syncthreads()", "barriers", at_most=1),
        ),
    ),
    256,
)
_product(
    RING,
    "persistent",
    "A persistent grid of clusters, with one batch in flight",
    Points(
        correct=2,
        bounds=(
            replace(NO_LOADS, also=NO_STORES),
            # two clusters of two blocks compute three tiles each, with two warpgroups in each block
            Bound("waits of warpgroups that leave no batch in flight", "wgmma_drains", at_most=2 * 2 * 3 * 2),
        ),
    ),
    256,
    (Case("300 × 520, K = 328: several tiles per block", mnk(300, 520, 328)),),
)
