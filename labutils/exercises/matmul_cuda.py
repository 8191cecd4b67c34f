"""Unit 15, three notebooks: one matrix product in CUDA C++, seven times; five levels in fp32, two on tensor cores."""

from ..gpu.device import SECTOR
from ..spec.exercise import Bound, Case, Contract, KernelExercise, PlainExercise, Points, array, out, register
from ._bounds import NO_STORE_CONFLICTS
from ._matmul import cost, known_mistakes, magnitude, mnk, product
from ._numbers import sentence_for

CUDA_CORES, VECTOR, TENSOR_CORES = "15_matmul_cuda", "15_matmul_cuda_vector", "15_matmul_tensor_cores"
"""The three notebooks of unit 15."""

# --- ledgers -------------------------------------------------------------------------------------------------------


def _intensity(block_m, block_n, itemsize):
    return 2 * block_m * block_n / ((block_m + block_n) * itemsize)


def _explain_intensity(sizes, yours, expected) -> str | None:
    m, n, item = sizes["block_m"], sizes["block_n"], sizes["itemsize"]
    messages = {
        expected / 2: "A multiply-add is two FLOPs.",
        expected * item: "That is per element. Divide by `itemsize` to get FLOPs per byte.",
        2 * m * n / (m * n * item): "Per iteration, a block reads block_m elements of A and block_n of B.",
        1 / expected: "Invert the fraction: FLOPs per byte.",
        2 * m * n / ((m + n + m * n) * item): "C is not read in each iteration: the accumulators stay in registers.",
        2 / (2 * item): "That is without reuse: each thread reads its own two numbers.",
    }
    return sentence_for(yours, messages)


register(
    PlainExercise(
        id=f"{CUDA_CORES}/tile_intensity",
        title="FLOPs per byte that a tile loads",
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
    messages = {
        m + n: "That is per iteration. In one iteration a thread does thread_m · thread_n FMAs.",
        2: "A thread uses each number it reads for a whole row or column of its elements.",
        1 / expected: "Invert the fraction: reads per FMA.",
        expected / 2: "Count an FMA as one instruction here, not as two FLOPs.",
        (m + n) / (2 * m * n): "Count an FMA as one instruction here, not as two FLOPs.",
    }
    return sentence_for(yours, messages)


register(
    PlainExercise(
        id=f"{CUDA_CORES}/shared_reads",
        title="Shared memory reads per FMA",
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


def _cases(tile: int, depth: int, last: Case, half: bool) -> tuple[Case, ...]:
    """Sizes around a tile, K around its depth. `last` is the case whose accesses are counted: whole tiles only."""
    values = Case("40 × 40, K = 24: wide range of values", mnk(40, 40, 24), "wide")
    if half:  # sums over a wide range of values overflow fp16
        values = Case("40 × 40, K = 24: ties", mnk(40, 40, 24), "ties")
    return (
        Case("one element", mnk(1, 1, 1)),
        Case("2 × 3, K = 4", mnk(2, 3, 4), "position"),
        Case(f"{tile - 1} × 7, K = {depth - 1}: one short", mnk(tile - 1, 7, depth - 1), "position"),
        Case(f"5 × {tile + 1}, K = {depth + 1}: one more", mnk(5, tile + 1, depth + 1), "position"),
        Case(f"{tile + 1} × 65, K = 17: edges everywhere", mnk(tile + 1, 65, 17), "position"),
        Case("1 × 127, K = 50: a single row", mnk(1, 127, 50), "position"),
        Case("30 × 20, K = 300: long K", mnk(30, 20, 300)),
        Case("48 × 40, K = 70: small integers, compared bit for bit", mnk(48, 40, 70), exact=True),
        Case("20 × 36, K = 33: rows not aligned to 16 bytes", mnk(20, 36, 33), layout="offset"),
        values,
        last,
    )


def _draw(rng) -> dict[str, int]:
    M, N = rng.choice([(rng.randrange(1, 70), rng.randrange(1, 70)), (128 + rng.choice([-1, 0, 1]), 30), (9, 129)])
    return mnk(M, N, rng.choice([rng.randrange(1, 80), 32 * rng.randrange(1, 4) + rng.choice([-1, 0, 1])]))


FROM_MEMORY = "sectors loaded per sector stored"


def _loads(at_most: float, stored: int) -> Bound:
    """The ratio is K · (1 / block_m + 1 / block_n), if loads and stores use whole sectors. C has `stored` bytes, and
    storing them again does not lower the ratio."""
    return Bound(
        FROM_MEMORY,
        "global_load_sectors",
        "global_store_sectors",
        at_most=at_most,
        reference=stored / SECTOR,
        margin=1,
    )


def _reads(at_most: float, stored: int) -> Bound:
    return Bound(
        "bytes read from shared memory per byte stored",
        "shared_load_bytes",
        "global_store_bytes",
        at_most=at_most,
        reference=stored,
        margin=1,
    )


def _no_conflicts(wavefronts: int) -> Bound:
    """`wavefronts` of the reference solution; smaller tiles in registers need more, without conflicts."""
    return Bound(
        "shared memory wavefronts, relative to no bank conflicts",
        "shared_load_wavefronts",
        "ideal_shared_load_wavefronts",
        at_most=1.01,
        reference=wavefronts,
        margin=3,
        also=NO_STORE_CONFLICTS,
    )


def _level(unit: str, name: str, title: str, points: Points, tile: int, depth: int, last: Case, **more) -> None:
    half = more.pop("half", False)
    register(
        KernelExercise(
            id=f"{unit}/{name}",
            title=title,
            entry=name,
            points=points,
            arguments={"a": array("M", "K"), "b": array("K", "N"), "c": out("M", "N")},
            reference=product,
            magnitude=magnitude,
            contract=Contract(dtype="float16" if half else "float32", terms=lambda sizes: sizes["K"]),
            cost=cost,
            cases=_cases(tile, depth, last, half),
            draw=_draw,
            tiny=Case("2 × 3, K = 4", mnk(2, 3, 4), "integers"),
            bench=mnk(4096, 4096, 4096),
            library=product,
            language="cuda",
            known_mistakes=known_mistakes(depth),
        )
    )


SMALL = Case("64 × 96, K = 64: whole tiles", mnk(64, 96, 64))
WHOLE = Case("128 × 128, K = 64: one whole tile", mnk(128, 128, 64))

_level(
    CUDA_CORES,
    "naive",
    "Level 1: coalesced accesses",
    Points(
        correct=1,
        bounds=(
            Bound(
                "sectors per load request",
                "global_load_sectors",
                "global_load_requests",
                at_most=3,
                reference=2 * 64 * 96 * 64 / 32,
            ),
            Bound(
                "sectors per store request",
                "global_store_sectors",
                "global_store_requests",
                at_most=4,
                reference=64 * 96 / 32,
            ),
        ),
    ),
    32,
    32,
    SMALL,
)
_level(
    CUDA_CORES,
    "shared",
    "Level 2: a tile in shared memory",
    Points(correct=2, bounds=(_loads(4.01, 4 * 64 * 96), _no_conflicts(18_432))),
    32,
    32,
    SMALL,
)
_level(
    CUDA_CORES,
    "register",
    "Level 3: a tile in registers",
    Points(correct=2, bounds=(_loads(1.01, 4 * 128 * 128), _reads(64 * 0.25 * 1.01, 4 * 128 * 128))),
    128,
    8,
    WHOLE,
)
_level(
    VECTOR,
    "vector",
    "Level 4: vectorized loads",
    Points(
        correct=2,
        bounds=(
            Bound(
                "bytes per load request",
                "global_load_bytes",
                "global_load_requests",
                at_least=510,
                reference=2 * 4 * 128 * 64,
                margin=3,
            ),
            Bound(
                "bytes per shared memory read request",
                "shared_load_bytes",
                "shared_load_requests",
                at_least=510,
                reference=1 << 20,
                margin=3,
            ),
            _no_conflicts(4096),
        ),
    ),
    128,
    8,
    WHOLE,
)
_level(
    VECTOR,
    "double",
    "Level 5: double buffering",
    Points(correct=2, bounds=(Bound("barriers for 8 tiles along K, plus one before the loop", "barriers", at_most=9),)),
    128,
    16,
    WHOLE,
)
_level(
    TENSOR_CORES,
    "tensor",
    "Level 6: tensor cores",
    Points(correct=3, bounds=(_loads(1.01, 2 * 128 * 128),)),
    128,
    32,
    WHOLE,
    half=True,
)
_level(
    TENSOR_CORES,
    "pipelined",
    "Level 7: asynchronous copies",
    Points(correct=3, bounds=(Bound("barriers for 2 tiles along K, plus one at the end", "barriers", at_most=3),)),
    128,
    32,
    WHOLE,
    half=True,
)
