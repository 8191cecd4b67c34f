"""Unit 10: sums. Six CUDA C++ kernels, each without the previous one's bottleneck, then two in Triton."""

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
from ._bounds import NO_STORE_CONFLICTS
from ._cases import draw_matrix, matrix_cases
from ._reduction_mistakes import BLOCK, CHUNK, TRITON_MISTAKES, VECTOR_MISTAKES, total, tree_mistakes

# --- busy warps -------------------------------------------------------------------------------------------------------


def _busy_warps(threads: int, s: int) -> int:
    return threads // max(32, 2 * s)


def _explain_warps(sizes, yours, expected) -> str | None:
    threads, s = sizes["threads"], sizes["s"]
    if yours == threads // (2 * s):
        return "That is the number of threads that add. While 2·s is less than 32, several of them share a warp."
    if yours == -(-threads // (64 * s)):
        return "That would be right if the threads that add were adjacent. They are 2·s apart: where is the next one?"
    if yours == threads // 32:
        return "That is every warp of the block. When 2·s is more than 32, some warps contain no multiple of 2·s."
    if yours == threads // max(32, s):
        return "The threads that add are 2·s apart, not s."
    return None


register(
    PlainExercise(
        id="10_reduction/busy_warps",
        title="How many warps are busy in a step?",
        entry="busy_warps",
        points=Points(correct=1),
        reference=_busy_warps,
        rtol=0.0,
        explain=_explain_warps,
        cases=(
            Case("first step of 256 threads", {"threads": 256, "s": 1}),
            Case("third step of 256 threads", {"threads": 256, "s": 4}),
            Case("one thread per warp", {"threads": 256, "s": 16}),
            Case("every other warp", {"threads": 256, "s": 32}),
            Case("last step of 256 threads", {"threads": 256, "s": 128}),
            Case("a block of one warp", {"threads": 32, "s": 16}),
            Case("1024 threads, s = 64", {"threads": 1024, "s": 64}),
        ),
        draw=lambda rng: (lambda k: {"threads": 2**k, "s": 2 ** rng.randrange(0, k)})(rng.randrange(6, 11)),
    )
)


# --- the sum of a vector -------------------------------------------------------------------------------------------

STEP = 32_768 + 2048
"""Elements of the case whose counts are graded: many full blocks, and partial sums that need a second launch."""


def _tree_cases(unit: int, large: int) -> tuple[Case, ...]:
    """Sizes around `unit`, the number of elements per block."""
    return (
        Case("one element", {"n": 1}),
        Case("three elements", {"n": 3}, "position"),
        Case("n = 100, less than a block has threads", {"n": 100}, "position"),
        Case(f"n = {unit - 1}, one short of a block", {"n": unit - 1}, "position"),
        Case(f"n = {unit}, exactly one block", {"n": unit}),
        Case(f"n = {unit + 1}, one more than a block", {"n": unit + 1}, "position"),
        Case(f"n = {3 * unit - 56}, the last block partly full", {"n": 3 * unit - 56}, "position"),
        Case("n = 4099, a prime", {"n": 4099}, "position"),
        Case("n = 3000, values up to ten thousand", {"n": 3000}, "large"),
        Case("n = 5000, not aligned to 16 bytes", {"n": 5000}, "position", "offset"),
        Case("n = 9001, small integers, compared bit for bit", {"n": 9001}, "integers", exact=True),
        Case(f"n = {large}, many full blocks", {"n": large}, "integers", exact=True),
    )


def _draw(rng) -> dict[str, int]:
    """Sizes of a hidden case. Most are short, because the tolerance of a long sum hides a lost element."""
    return {
        "n": rng.choice(
            [
                rng.randrange(1, 300),
                BLOCK * rng.randrange(1, 9) + rng.choice([-1, 0, 1]),
                CHUNK * rng.randrange(1, 3) + rng.randrange(-4, 5),
                rng.randrange(1000, 9000),
            ]
        )
    }


PER_BLOCK = "global_store_requests"
"""Each block stores one partial sum with one request, so this counts the blocks."""

UNDIVIDED = Bound("divergent branches per block", "divergent_branches", PER_BLOCK, at_most=8, reference=STEP / BLOCK)
NO_CONFLICTS = Bound(
    "shared-memory wavefronts per ideal wavefront",
    "shared_load_wavefronts",
    "ideal_shared_load_wavefronts",
    at_most=1,
    also=NO_STORE_CONFLICTS,
)


UNIT, SECOND = "10_reduction", "10_warp_reduction"


def _sum_exercise(name: str, title: str, points: Points, unit: int, known_mistakes=(), cases=None, **more) -> None:
    register(
        KernelExercise(
            id=f"{more.pop('where', UNIT)}/{name}",
            title=title,
            entry=name,
            points=points,
            arguments={"x": array("n"), "out": out()},
            reference=total,
            magnitude=lambda x: total(x.abs()),
            contract=more.pop("contract", Contract(terms=lambda sizes: sizes["n"])),
            cost=lambda sizes, item: Cost(item * sizes["n"], item, sizes["n"]),
            cases=cases or _tree_cases(unit, STEP),
            draw=_draw,
            tiny=Case("eight elements", {"n": 8}, "integers"),
            bench={"n": 2**28},
            library=torch.sum,
            known_mistakes=known_mistakes or tree_mistakes(unit),
            **{"language": "cuda", **more},
        )
    )


_sum_exercise("sum_v1", "V1: a tree, neighbors first", Points(correct=2), BLOCK)
_sum_exercise("sum_v2", "V2: the first threads add", Points(correct=2, bounds=(UNDIVIDED,)), BLOCK)
_sum_exercise("sum_v3", "V3: sequential addresses", Points(correct=2, bounds=(UNDIVIDED, NO_CONFLICTS)), BLOCK)
_sum_exercise(
    "sum_v4",
    "V4: add while loading",
    Points(
        correct=2,
        bounds=(
            Bound(
                "bytes written to shared memory per byte of x",
                "shared_store_bytes",
                "global_load_bytes",
                at_most=1.1,
                reference=4 * STEP,
            ),
            Bound(
                "sectors per load request",
                "global_load_sectors",
                "global_load_requests",
                at_most=4,
                reference=STEP / 32,
            ),
            NO_CONFLICTS,
        ),
    ),
    2 * BLOCK,
)
_sum_exercise(
    "sum_v5",
    "V5: warp shuffles in the last steps",
    Points(
        correct=2,
        bounds=(
            Bound("barriers per block", "barriers", PER_BLOCK, at_most=4, reference=STEP / (2 * BLOCK)),
            NO_CONFLICTS,
        ),
    ),
    2 * BLOCK,
    where=SECOND,
)


# --- one launch ----------------------------------------------------------------------------------------------------


def _one_launch_cases(large: int) -> tuple[Case, ...]:
    return (
        Case("one element", {"n": 1}),
        Case("two elements", {"n": 2}, "position"),
        Case("three elements", {"n": 3}, "position"),
        Case("n = 6, one float4 and two more", {"n": 6}, "position"),
        Case("n = 1023, less than a block of float4", {"n": 1023}, "position"),
        Case(f"n = {CHUNK - 1}, one short of {CHUNK}", {"n": CHUNK - 1}, "position"),
        Case(f"n = {CHUNK}", {"n": CHUNK}, "position"),
        Case(f"n = {CHUNK + 1}, one more than {CHUNK}", {"n": CHUNK + 1}, "position"),
        Case("n = 3000, values up to ten thousand", {"n": 3000}, "large"),
        Case("n = 5003, not aligned to 16 bytes", {"n": 5003}, "position", "offset"),
        Case("n = 100003, small integers, compared bit for bit", {"n": 100_003}, "integers", exact=True),
        Case(f"n = {large}, many full blocks", {"n": large}, "integers", exact=True),
    )


_sum_exercise(
    "sum_v6",
    "V6: one launch, vectorized loads, one atomic per block",
    Points(
        correct=3,
        bounds=(
            Bound(
                "bytes per load request of a warp",
                "global_load_bytes",
                "global_load_requests",
                at_least=480,
                reference=4 * 32 * CHUNK,
                margin=3,
            ),
            Bound("atomics of 32 blocks", "atomics", at_most=32),
            Bound("barriers per atomic", "barriers", "atomics", at_most=2, reference=32),
        ),
    ),
    CHUNK,
    VECTOR_MISTAKES,
    cases=_one_launch_cases(32 * CHUNK),
    contract=Contract(terms=lambda sizes: sizes["n"], any_order=True),
    where=SECOND,
)
_sum_exercise(
    "total_sum",
    "Sum a vector in Triton",
    Points(correct=2),
    CHUNK,
    TRITON_MISTAKES,
    cases=_one_launch_cases(32 * CHUNK),
    contract=Contract(terms=lambda sizes: sizes["n"], any_order=True),
    where=SECOND,
    language="triton",
)


# --- rows ----------------------------------------------------------------------------------------------------------

register(
    KernelExercise(
        id="10_warp_reduction/row_sum",
        title="Sum each row in Triton",
        entry="row_sum",
        points=Points(correct=2),
        arguments={"x": array("M", "N"), "out": out("M", dtype="float32")},
        reference=lambda x: x.sum(1),
        magnitude=lambda x: x.abs().sum(1),
        contract=Contract(terms=lambda sizes: sizes["N"]),
        cost=lambda sizes, item: Cost(item * sizes["M"] * sizes["N"], 4 * sizes["M"], sizes["M"] * sizes["N"]),
        cases=(*matrix_cases(exact=True), Case("50 × 100, fp16, a short row", {"M": 50, "N": 100}, dtype="float16")),
        draw=draw_matrix,
        tiny=Case("3 rows of 5", {"M": 3, "N": 5}, "integers"),
        bench={"M": 2**16, "N": 2**12},
        library=lambda x: torch.sum(x, 1),
        known_mistakes=(
            KnownMistake(
                "first-block-only", "every row's sum is the sum of row 0", lambda x: x[:1].sum(1).expand(x.shape[0])
            ),
            KnownMistake(
                "first-block-only", "{name} is the sum of the first 1024 columns", lambda x: x[:, :1024].sum(1)
            ),
            KnownMistake(
                "padded-lanes",
                "each lane past the end of the row adds 1",
                lambda x: x.sum(1) + (1 << (x.shape[1] - 1).bit_length()) - x.shape[1],
            ),
            KnownMistake("wrong-formula", "{name} is the mean of each row, not its sum", lambda x: x.mean(1)),
            KnownMistake("wrong-formula", "{name} is the maximum of each row", lambda x: x.amax(1)),
            KnownMistake(
                "missing-accumulation", "{name} is the first column of x: nothing is added", lambda x: x[:, 0]
            ),
            KnownMistake("transposed", "{name} is the sum of each column", lambda x: _columns(x)),
            KnownMistake(
                "tail-not-written", "{name} leaves out the last element of each row", lambda x: x[:, :-1].sum(1)
            ),
            KnownMistake(
                "tail-not-written",
                "{name} leaves out the end of each row: BLOCK_N is the power of two below N, not above",
                lambda x: x[:, : 1 << (x.shape[1].bit_length() - 1)].sum(1),
            ),
        ),
    )
)


def _columns(x):
    """Sums of the first M columns; NaN where there are fewer."""
    sums = torch.full((x.shape[0],), torch.nan, dtype=x.dtype)
    k = min(x.shape)
    sums[:k] = x.sum(0)[:k]
    return sums
