"""Unit 08: how a warp's addresses map to sectors. A naive matmul to fix, and a transpose through shared memory."""

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

LANES, SECTOR = 32, 32
TILE = 32


def coalesced(loads: int, stores: int, points: float = 1.0) -> tuple[Bound, Bound]:
    """32 lanes of 4 bytes are 4 sectors; `loads` and `stores` are the requests of the reference solution."""

    def per_request(way: str, requests: int) -> Bound:
        sectors, made = f"global_{way}_sectors", f"global_{way}_requests"
        return Bound(f"sectors per {way} request", sectors, made, at_most=4, points=points, reference=requests)

    return per_request("load", loads), per_request("store", stores)


# --- sectors of one request ----------------------------------------------------------------------------------------


def sectors(stride: int, itemsize: int, first: int = 0) -> int:
    """Sectors that a warp's request touches; lane k loads element first + k·stride."""
    return len({(first + lane * stride) * itemsize // SECTOR for lane in range(LANES)})


def _explain_sectors(sizes, yours, expected) -> str | None:
    stride, itemsize, first = sizes["stride"], sizes["itemsize"], sizes["first"]
    if yours == sectors(stride, 4, first) and itemsize != 4:
        return f"That is right for elements of 4 bytes; these have {itemsize}."
    if yours == sectors(stride, itemsize) and first:
        return f"Lane 0 loads element {first}, not element 0: where in its sector is it?"
    if yours == LANES * itemsize // SECTOR:
        return "That is right for adjacent elements only: how many bytes apart are two lanes?"
    if yours > LANES:
        return "A lane touches one sector, so 32 lanes touch at most 32."
    if stride == 0:
        return "With stride 0 all lanes load the same element: how many sectors hold it?"
    return "Write down the start bytes of lanes 0, 1, 2, …, divide each by 32, and count the distinct quotients."


register(
    PlainExercise(
        id="08_coalescing/sectors_per_request",
        title="Sectors that one request touches",
        entry="sectors_per_request",
        points=Points(correct=1),
        reference=lambda stride, itemsize, first: sectors(stride, itemsize, first),
        rtol=0.0,
        explain=_explain_sectors,
        cases=(
            Case("adjacent, fp32", {"stride": 1, "itemsize": 4, "first": 0}),
            Case("adjacent, fp16", {"stride": 1, "itemsize": 2, "first": 0}),
            Case("adjacent, fp64", {"stride": 1, "itemsize": 8, "first": 0}),
            Case("adjacent, from element 1 on", {"stride": 1, "itemsize": 4, "first": 1}),
            Case("every second element", {"stride": 2, "itemsize": 4, "first": 0}),
            Case("every third: one field of (x, y, z)", {"stride": 3, "itemsize": 4, "first": 2}),
            Case("every fifth, fp16", {"stride": 5, "itemsize": 2, "first": 7}),
            Case("all lanes the same element", {"stride": 0, "itemsize": 4, "first": 9}),
            Case("down a column of 1000", {"stride": 1000, "itemsize": 4, "first": 0}),
        ),
        draw=lambda rng: {
            "stride": rng.choice([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33]),
            "itemsize": rng.choice([1, 2, 4, 8]),
            "first": rng.randrange(0, 64),
        },
    )
)


# --- naive matmul --------------------------------------------------------------------------------------------------


def _size(M: int, N: int, K: int) -> dict[str, int]:
    return {"M": M, "N": N, "K": K}


register(
    KernelExercise(
        id="08_coalescing/repair_matmul",
        title="Fix an uncoalesced matmul",
        entry="matmul",
        language="cuda",
        points=Points(correct=2, bounds=coalesced(2 * 64 * 96 * 128 // 32, 64 * 96 // 32)),
        arguments={"a": array("M", "K"), "b": array("K", "N"), "c": out("M", "N")},
        reference=lambda a, b: a @ b,
        magnitude=lambda a, b: a.abs() @ b.abs(),
        contract=Contract(terms=lambda sizes: sizes["K"] + 1),
        cost=lambda sizes, item: Cost(
            item * sizes["K"] * (sizes["M"] + sizes["N"]),
            item * sizes["M"] * sizes["N"],
            2 * sizes["M"] * sizes["N"] * sizes["K"],
        ),
        cases=(
            Case("one element, K = 1", _size(1, 1, 1)),
            Case("2 × 3, K = 2", _size(2, 3, 2), "integers"),
            Case("K = 1, an outer product", _size(9, 40, 1), "position"),
            Case("31 × 33, one short of a tile, one more", _size(31, 33, 17), "position"),
            Case("one tile exactly, small integers, compared bit for bit", _size(32, 32, 32), exact=True),
            Case("70 × 5, tall", _size(70, 5, 40), "position"),
            Case("5 × 70, wide", _size(5, 70, 40), "position"),
            Case("primes, not aligned to 16 bytes", _size(37, 41, 43), layout="offset"),
            Case("33 × 34, wide dynamic range", _size(33, 34, 35), "wide"),
            Case("64 × 96, K = 128", _size(64, 96, 128)),
        ),
        # smaller than the last case, whose counts earn the points
        draw=lambda rng: _size(*(rng.choice([rng.randrange(1, 70), 31, 32, 33, 64]) for _ in range(3))),
        tiny=Case("2 × 3, K = 2", _size(2, 3, 2), "integers"),
        bench=_size(2048, 2048, 2048),
        library=lambda a, b: a @ b,
        known_mistakes=(
            KnownMistake(
                "missing-accumulation",
                "{name} holds only the last product of each sum, a[m][K-1] · b[K-1][n]",
                lambda a, b: a[:, -1:] * b[-1:, :],
            ),
            KnownMistake(
                "transposed",
                "a is read as if it were stored column by column, a[k · M + m]",
                lambda a, b: a.reshape(a.shape[::-1]).T @ b,
            ),
            KnownMistake(
                "transposed",
                "b is read as if it were stored column by column, b[n · K + k]",
                lambda a, b: a @ b.reshape(b.shape[::-1]).T,
            ),
            KnownMistake(
                "wrong-formula",
                "{name} is missing the last product of each sum: k must reach K − 1",
                lambda a, b: a[:, :-1] @ b[:-1, :],
            ),
            KnownMistake(
                "wrong-formula",
                "{name} is missing the first product of each sum: k must start at 0",
                lambda a, b: a[:, 1:] @ b[1:, :],
            ),
        ),
    )
)


# --- transpose -----------------------------------------------------------------------------------------------------


def matrix(M: int, N: int) -> dict[str, int]:
    return {"M": M, "N": N}


def tiles_in_place(x, tile: int):
    """The result of a kernel that moves tiles without transposing them; NaN outside whole tiles."""
    rows, columns = x.shape
    y = torch.full((columns, rows), torch.nan, dtype=x.dtype)
    for i in range(0, rows - tile + 1, tile):
        for j in range(0, columns - tile + 1, tile):
            y[j : j + tile, i : i + tile] = x[i : i + tile, j : j + tile]
    return y


def transpose_cases(tile: int) -> tuple[Case, ...]:
    """Cases around a tile's size. The last one is the largest and aligned: its counts earn the points."""
    return (
        Case("one element", matrix(1, 1)),
        Case("2 × 3", matrix(2, 3), "position"),
        Case("3 × 1, a single column", matrix(3, 1), "position"),
        Case("1 × 70, a single row", matrix(1, 70), "position"),
        Case(f"{tile - 1} × {tile + 1}, one short of a tile and one more", matrix(tile - 1, tile + 1), "position"),
        Case(f"{tile} × {tile}, exactly one tile", matrix(tile, tile), "position"),
        Case(f"{2 * tile} × {tile}, two tiles", matrix(2 * tile, tile), "position"),
        Case(f"{tile + 1} × {2 * tile}, wide dynamic range", matrix(tile + 1, 2 * tile), "wide"),
        Case("97 × 61, primes, not aligned to 16 bytes", matrix(97, 61), "position", layout="offset"),
        Case("256 × 192, many tiles", matrix(256, 192), "position"),
    )


TRANSPOSE_REQUESTS = 256 * 192 // 32
"""Load requests, and as many store requests, if each lane moves one element of the largest case at a time."""


def draw_matrix(rng) -> dict[str, int]:
    """Sizes of a hidden case, all of them smaller than the case that is counted."""
    return matrix(*(rng.choice([rng.randrange(1, 40), 31, 32, 33, rng.randrange(60, 170)]) for _ in range(2)))


def register_transpose(id: str, title: str, entry: str, points: Points, tile: int = 32) -> None:
    """A transpose, (M, N) to (N, M). No arithmetic, so no rounding: every bit must be right."""
    register(
        KernelExercise(
            id=id,
            title=title,
            entry=entry,
            language="cuda",
            points=points,
            arguments={"x": array("M", "N"), "out": out("N", "M")},
            reference=lambda x: x.T,
            magnitude=lambda x: x.T.abs(),
            contract=Contract(terms=0),
            cost=lambda sizes, item: Cost(item * sizes["M"] * sizes["N"], item * sizes["M"] * sizes["N"], 0),
            cases=transpose_cases(tile),
            draw=draw_matrix,
            tiny=Case("2 × 3", matrix(2, 3), "integers"),
            bench=matrix(8192, 8192),
            library=lambda x: x.T.contiguous(),
            known_mistakes=(
                KnownMistake("transposed", "{name} is x itself, row by row", lambda x: x.reshape(x.T.shape)),
                KnownMistake(
                    "transposed",
                    "the tiles of {name} are in the right places, but inside each tile rows and columns are not "
                    "swapped",
                    lambda x: tiles_in_place(x, tile),
                ),
            ),
        )
    )


register_transpose(
    "08_coalescing/transpose",
    "Transpose through shared memory",
    "transpose",
    Points(correct=2, bounds=coalesced(TRANSPOSE_REQUESTS, TRANSPOSE_REQUESTS)),
)
