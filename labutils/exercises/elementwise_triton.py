"""Unit 06: elementwise kernels in Triton."""

from ..exercise import Case, Contract, Cost, KernelExercise, Points, array, out, register

TILE = 1024
"""Elements per program of the unit's starters; the cases straddle it."""


def vector_cases(large: int = 98_432, **more) -> tuple[Case, ...]:
    """Sizes 1, 2, 3, tile−1, tile, tile+1, a prime and a large one, with awkward values and addresses."""
    return (
        Case("one element", {"n": 1}, **more),
        Case("two elements", {"n": 2}, **more),
        Case("three elements", {"n": 3}, "position", **more),
        Case(f"n = {TILE - 1}, one short of a block", {"n": TILE - 1}, "position", **more),
        Case(f"n = {TILE}, exactly one block", {"n": TILE}, "wide", **more),
        Case(f"n = {TILE + 1}, one more than a block", {"n": TILE + 1}, "position", **more),
        Case("n = 4099, a prime", {"n": 4099}, "large", **more),
        Case("n = 5000, not aligned to 16 bytes", {"n": 5000}, "normal", layout="offset", **more),
        Case(f"n = {large}, many blocks", {"n": large}, "position", **more),
    )


def draw_vector(rng) -> dict[str, int]:
    return {
        "n": rng.choice(
            [
                rng.randrange(1, 64),
                TILE * rng.randrange(1, 5) + rng.choice([-1, 0, 1]),
                rng.randrange(2000, 60_000),
            ]
        )
    }


register(
    KernelExercise(
        id="06_elementwise_triton/vector_add",
        title="Add two vectors",
        entry="vector_add",
        points=Points(correct=2),
        arguments={"x": array("n"), "y": array("n"), "out": out("n")},
        reference=lambda x, y: x + y,
        magnitude=lambda x, y: x.abs() + y.abs(),
        contract=Contract(terms=1),
        cost=lambda sizes, item: Cost(2 * item * sizes["n"], item * sizes["n"], sizes["n"]),
        cases=vector_cases(),
        draw=draw_vector,
        tiny=Case("ten elements", {"n": 10}, "integers"),
        bench={"n": 2**27},
        library=lambda x, y: x + y,
    )
)
