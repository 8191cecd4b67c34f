"""Cases that many exercises share: sizes around a block, awkward values, awkward addresses."""

from __future__ import annotations

from ..spec.exercise import Case

TILE = 1024
"""Elements per program in the starters; the cases straddle it."""


def vector_cases(large: int = 50_021, exact: bool = False, half: bool = True) -> tuple[Case, ...]:
    """Sizes 1, 2, 3, tile−1, tile, tile+1, a prime and a large one, with awkward values and addresses.

    `exact` adds a case of small integers, for operations in which those leave nothing to round; `half` one in fp16.
    """
    cases = [
        Case("one element", {"n": 1}),
        Case("two elements", {"n": 2}),
        Case("three elements", {"n": 3}, "position"),
        Case(f"n = {TILE - 1}, one short of a block", {"n": TILE - 1}, "position"),
        Case(f"n = {TILE}, exactly one block", {"n": TILE}, "wide"),
        Case(f"n = {TILE + 1}, one more than a block", {"n": TILE + 1}, "position"),
        Case("n = 4099, a prime", {"n": 4099}),
        Case("n = 3000, values up to ten thousand", {"n": 3000}, "large"),
        Case("n = 5000, not aligned to 16 bytes", {"n": 5000}, layout="offset"),
        Case(f"n = {large}, many blocks", {"n": large}, "position"),
    ]
    if exact:
        cases.insert(7, Case("n = 2500, small integers, compared bit for bit", {"n": 2500}, "integers", exact=True))
    if half:
        cases.insert(-1, Case("n = 3001, fp16", {"n": 3001}, dtype="float16"))
    return tuple(cases)


def matrix_cases(exact: bool = False, half: bool = True) -> tuple[Case, ...]:
    """The same for rows of a matrix (M, N); some rows lie further apart than they are long."""
    cases = [
        Case("one element", {"M": 1, "N": 1}),
        Case("2 × 3", {"M": 2, "N": 3}, "position"),
        Case("3 × 1, a single column", {"M": 3, "N": 1}),
        Case("1 × 1025, a single row", {"M": 1, "N": TILE + 1}, "position"),
        Case(f"5 × {TILE - 1}, one short of a block", {"M": 5, "N": TILE - 1}, "position"),
        Case(f"4 × {TILE}, exactly one block", {"M": 4, "N": TILE}, "wide"),
        Case("17 × 300, padded rows", {"M": 17, "N": 300}, layout="padded"),
        Case("7 × 2053, a prime, not aligned to 16 bytes", {"M": 7, "N": 2053}, layout="offset"),
        Case("40 × 40, square", {"M": 40, "N": 40}, "position"),
        Case("6 × 700, values up to ten thousand", {"M": 6, "N": 700}, "large"),
        Case("131 × 97, many short rows, padded", {"M": 131, "N": 97}, "position", layout="padded"),
        Case("33 × 3000, many blocks", {"M": 33, "N": 3000}, "position"),
    ]
    if exact:
        cases.insert(7, Case("9 × 500, small integers, compared bit for bit", {"M": 9, "N": 500}, exact=True))
    if half:
        cases.insert(-1, Case("20 × 1111, fp16", {"M": 20, "N": 1111}, dtype="float16"))
        cases.insert(-1, Case("12 × 640, fp16, padded rows", {"M": 12, "N": 640}, layout="padded", dtype="float16"))
    return tuple(cases)


def draw_vector(rng) -> dict[str, int]:
    """Sizes of a hidden case: short, next to a multiple of the block, or anything."""
    return {
        "n": rng.choice(
            [
                rng.randrange(1, 64),
                TILE * rng.randrange(1, 5) + rng.choice([-1, 0, 1]),
                rng.randrange(2000, 60_000),
            ]
        )
    }


def draw_blocks(rng) -> dict[str, int]:
    """Sizes of a hidden case for a launcher with 256 threads per block: part of a block, next to whole blocks, or many.
    Short, because the tolerance of a long sum hides a lost element."""
    return {
        "n": rng.choice(
            [rng.randrange(1, 300), 256 * rng.randrange(1, 9) + rng.choice([-1, 0, 1]), rng.randrange(1000, 9000)]
        )
    }


def draw_matrix(rng) -> dict[str, int]:
    """Sizes of a hidden case: rows shorter than a block, next to one, or longer."""
    columns = rng.choice(
        [rng.randrange(1, 200), TILE * rng.randrange(1, 3) + rng.choice([-1, 0, 1]), rng.randrange(300, 4000)]
    )
    return {"M": rng.randrange(1, 40), "N": columns}
