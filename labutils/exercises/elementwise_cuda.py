"""Unit 07: elementwise kernels in CUDA C++: grid-stride loops, two dimensions, 16-byte accesses."""

from dataclasses import replace

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
from ._cases import vector_cases
from .elementwise_triton import GELU, VECTOR_ADD

# --- iterations of a grid-stride loop -------------------------------------------------------------------------------


def _passes(n: int, threads: int, thread: int) -> int:
    return max(0, -(-(n - thread) // threads))


def _explain_passes(sizes, yours, expected) -> str | None:
    n, threads, thread = sizes["n"], sizes["threads"], sizes["thread"]
    if yours < 0:
        return f"Thread {thread} starts beyond the last element, so it executes 0 iterations."
    if yours == (n - thread) / threads:
        return "The number of iterations is an integer: round up."
    if yours == (n - thread) // threads:
        return f"That rounds down. Try a small case: the thread computes elements {thread}, {thread + threads}, …"
    if yours == -(-n // threads):
        return f"That is the count of thread 0. Thread {thread} starts {thread} elements later."
    if yours == n // threads:
        return f"The {n % threads} remaining elements go to the first threads."
    if yours == n / threads:
        return "That is the average over all threads; return the count of this thread."
    return None


register(
    PlainExercise(
        id="07_elementwise_cuda/passes",
        title="Iterations of one thread in a grid-stride loop",
        entry="passes",
        points=Points(correct=1),
        reference=_passes,
        rtol=0.0,
        explain=_explain_passes,
        cases=(
            Case("20 elements, 8 threads, thread 0", {"n": 20, "threads": 8, "thread": 0}),
            Case("20 elements, 8 threads, thread 3", {"n": 20, "threads": 8, "thread": 3}),
            Case("20 elements, 8 threads, thread 4", {"n": 20, "threads": 8, "thread": 4}),
            Case("20 elements, 8 threads, thread 7", {"n": 20, "threads": 8, "thread": 7}),
            Case("as many threads as elements, the last one", {"n": 1024, "threads": 1024, "thread": 1023}),
            Case("a thread without elements", {"n": 5, "threads": 256, "thread": 5}),
            Case("a thread far beyond the end", {"n": 5, "threads": 256, "thread": 255}),
            Case("2^27 elements, 2^18 threads", {"n": 2**27, "threads": 2**18, "thread": 77}),
        ),
        draw=lambda rng: {
            "n": rng.randrange(1, 10**6),
            "threads": (threads := 256 * rng.randrange(1, 1000)),
            "thread": rng.randrange(threads),
        },
    )
)


# --- vector add ----------------------------------------------------------------------------------------------------

register(
    replace(
        VECTOR_ADD,
        id="07_elementwise_cuda/vector_add",
        title="Add two vectors with a grid-stride loop",
        points=Points(
            correct=2,
            bounds=(
                Bound(
                    "sectors per load request",
                    "global_load_sectors",
                    "global_load_requests",
                    at_most=4,
                    reference=2 * 65_536 / 32,
                ),
                Bound("bytes stored, each element once", "global_store_bytes", at_most=4 * 65_536),
            ),
        ),
        cases=(
            *vector_cases(large=40_003, exact=True, half=False),
            Case("n = 65536, whole warps only", {"n": 65_536}, "position"),
        ),
        language="cuda",
    )
)


# --- rows and columns ----------------------------------------------------------------------------------------------


def _by_column(x, scale):
    """The result of a kernel that reads scale[column]; NaN where scale is too short."""
    n = torch.arange(x.shape[1], device=x.device)
    short = torch.where(n < scale.numel(), 0.0, torch.nan)
    return x * (scale[n.clamp(max=scale.numel() - 1)] + short)[None, :]


register(
    KernelExercise(
        id="07_elementwise_cuda/row_scale",
        title="Scale each row of a matrix",
        entry="row_scale",
        points=Points(
            correct=2,
            bounds=(Bound("bytes stored, each element once", "global_store_bytes", at_most=4 * 509 * 96),),
        ),
        arguments={"x": array("M", "N"), "scale": array("M"), "out": out("M", "N")},
        reference=lambda x, scale: x * scale[:, None],
        magnitude=lambda x, scale: x.abs() * scale.abs()[:, None],
        contract=Contract(terms=1),
        cost=lambda sizes, item: Cost(
            item * (sizes["M"] * sizes["N"] + sizes["M"]), item * sizes["M"] * sizes["N"], sizes["M"] * sizes["N"]
        ),
        cases=(
            Case("one element", {"M": 1, "N": 1}),
            Case("2 × 3", {"M": 2, "N": 3}, "position"),
            Case("1 × 1025, a single row", {"M": 1, "N": 1025}, "position"),
            Case("100 × 1, a single column", {"M": 100, "N": 1}, "position"),
            Case("8 × 32, as many rows and columns as a block", {"M": 8, "N": 32}, "wide"),
            Case("9 × 33, one more in each direction", {"M": 9, "N": 33}, "position"),
            Case("31 × 31, one short of four rows per thread", {"M": 31, "N": 31}, "position"),
            Case("33 × 64, one more than four rows per thread", {"M": 33, "N": 64}, "position"),
            Case("40 × 40, square", {"M": 40, "N": 40}, "position"),
            Case("9 × 500, small integers, compared bit for bit", {"M": 9, "N": 500}, exact=True),
            Case("60 × 70, values up to ten thousand", {"M": 60, "N": 70}, "large"),
            Case("61 × 83, primes, not aligned to 16 bytes", {"M": 61, "N": 83}, layout="offset"),
            Case("509 × 96, many rows", {"M": 509, "N": 96}, "position"),
        ),
        draw=lambda rng: {
            "M": rng.choice([rng.randrange(1, 40), 32 * rng.randrange(1, 5) + rng.choice([-1, 0, 1])]),
            "N": rng.choice([rng.randrange(1, 300), 32 * rng.randrange(1, 9) + rng.choice([-1, 0, 1])]),
        },
        tiny=Case("3 × 4", {"M": 3, "N": 4}, "integers"),
        bench={"M": 8192, "N": 16384},
        library=lambda x, scale: x * scale[:, None],
        language="cuda",
        known_mistakes=(
            KnownMistake("wrong-formula", "{name} is a copy of x: scale is not used", lambda x, scale: x.clone()),
            KnownMistake("wrong-formula", "{name} is x + scale, not x · scale", lambda x, scale: x + scale[:, None]),
            KnownMistake(
                "wrong-formula", "{name} is scale alone: x is not used", lambda x, scale: scale[:, None] + 0 * x
            ),
            KnownMistake("wrong-formula", "{name} is x · scale[0] in every row", lambda x, scale: x * scale[0]),
            KnownMistake("transposed", "{name} uses scale by column, not by row", _by_column),
        ),
    )
)


# --- GeLU ----------------------------------------------------------------------------------------------------------

register(
    replace(
        GELU,
        id="07_elementwise_cuda/gelu",
        title="GeLU with 16-byte accesses",
        points=Points(
            correct=2,
            bounds=(
                Bound(
                    "bytes per load request",
                    "global_load_bytes",
                    "global_load_requests",
                    at_least=500,
                    reference=4 * 65_536,
                    margin=3,
                ),
                Bound(
                    "bytes per store request",
                    "global_store_bytes",
                    "global_store_requests",
                    at_least=500,
                    reference=4 * 65_536,
                    margin=3,
                ),
            ),
        ),
        cases=(
            *vector_cases(large=40_003, half=False),
            Case("n = 65536, aligned, a multiple of four", {"n": 65_536}, "position"),
        ),
        language="cuda",
    )
)
