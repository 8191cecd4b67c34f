"""Unit 25: a kernel whose machine code must hold 16-byte accesses, and a kernel with three faults to repair in order.

`interleave` turns planar audio, one row a channel, into interleaved samples, and clips even and odd channels in
different ways. The chains of clippers are those of unit 02: k times v/(1 + |v|) is v/(1 + k·|v|), and k times v/√(1 +
v²) is v/√(1 + k·v²).
"""

import torch

from ..spec.exercise import (
    Bound,
    Case,
    Contract,
    Cost,
    KernelExercise,
    KnownMistake,
    Number,
    Points,
    array,
    out,
    register,
)
from ._bounds import one_side
from .coalescing import coalesced

UNIT = "25_profile"

# --- 16-byte accesses -------------------------------------------------------------------------------------------------

WIDE = 65_536
"""Elements of the case whose requests are counted."""


def _wide(way: str) -> Bound:
    """Eight fp16 values of 32 lanes are 512 bytes in one request."""
    return Bound(
        f"bytes per {way} request",
        f"global_{way}_bytes",
        f"global_{way}_requests",
        at_least=500,
        reference=2 * WIDE,
        margin=3,
    )


def _shift(x: torch.Tensor, by: int) -> torch.Tensor:
    return torch.roll(x, by, 0)


def _swapped(x: torch.Tensor, scale: float) -> torch.Tensor:
    """The two halves of each pair exchanged."""
    whole = x.numel() // 2 * 2
    return scale * torch.cat([x[:whole].reshape(-1, 2).flip(1).flatten(), x[whole:]])


register(
    KernelExercise(
        id=f"{UNIT}/brighten",
        title="16-byte loads in machine code",
        entry="brighten",
        language="cuda",
        points=Points(correct=1, bounds=(_wide("load"), _wide("store"))),
        arguments={
            "x": array("n", dtype="float16"),
            "scale": Number(),
            "out": out("n", dtype="float16"),
        },
        reference=lambda x, scale: scale * x,
        magnitude=lambda x, scale: abs(scale) * x.abs(),
        contract=Contract(dtype="float16", terms=2),
        cost=lambda sizes, item: Cost(2 * sizes["n"], 2 * sizes["n"], sizes["n"]),
        cases=(
            Case("one element", {"n": 1}),
            Case("seven elements, less than one load of 16 bytes", {"n": 7}, "position"),
            Case("eight elements, exactly one load", {"n": 8}, "position"),
            Case("nine elements", {"n": 9}, "position"),
            Case("n = 4095, one short of a block", {"n": 4095}, "position"),
            Case("n = 4096, exactly one block", {"n": 4096}, "integers"),
            Case("n = 4105, nine more than a block", {"n": 4105}, "position"),
            Case("n = 9001, a prime", {"n": 9001}),
            Case("n = 5000, not aligned to 16 bytes, two blocks", {"n": 5000}, "position", layout="offset"),
            Case(f"n = {WIDE}, whole loads only", {"n": WIDE}, "position"),
        ),
        draw=lambda rng: {"n": rng.choice([rng.randrange(1, 64), 4096 * rng.randrange(1, 4) + rng.randrange(-9, 10)])},
        tiny=Case("ten elements", {"n": 10}, "integers"),
        bench={"n": 1 << 27},
        library=lambda x, scale: scale * x,
        known_mistakes=(
            KnownMistake("wrong-formula", "{name} is x: nothing is scaled", lambda x, scale: x),
            KnownMistake("wrong-formula", "the two values of each pair are exchanged in {name}", _swapped),
            KnownMistake("wrong-formula", "{name} is x + scale", lambda x, scale: x + scale),
            KnownMistake("wrong-formula", "{name} is scaled twice", lambda x, scale: scale * scale * x),
        ),
    )
)

# --- three faults -----------------------------------------------------------------------------------------------------

STAGES = 8
TILE = 32
COUNTED = {"M": 128, "N": 96}
"""Whole tiles, so that every warp of the counted case is full."""
REQUESTS = COUNTED["M"] * COUNTED["N"] // 32


def even_clip(v):
    return v / (1 + STAGES * v.abs())


def odd_clip(v):
    return v / (1 + STAGES * v**2).sqrt()


def interleave(x, is_even=lambda m, n: m % 2 == 0):
    """x (M, N) to (N, M): rows clipped by their parity, then transposed."""
    m = torch.arange(x.shape[0], device=x.device)[:, None]
    n = torch.arange(x.shape[1], device=x.device)[None, :]
    return torch.where(is_even(m, n), even_clip(x), odd_clip(x)).T


def _planar(x):
    """Clipped, but not transposed."""
    return interleave(x).T.reshape(x.shape[1], x.shape[0])


def _in_tiles(x):
    """Each tile in its right place, but not transposed inside."""
    y = interleave(x).T
    M, N = x.shape
    result = torch.full((N, M), torch.nan, dtype=x.dtype, device=x.device)
    for m in range(0, M, TILE):
        for n in range(0, N, TILE):
            tile = y[m : m + TILE, n : n + TILE]
            rows, columns = min(tile.shape[0], N - n), min(tile.shape[1], M - m)
            result[n : n + rows, m : m + columns] = tile[:rows, :columns]
    return result


WAVEFRONTS = tuple(
    Bound(
        f"wavefronts per ideal wavefront, shared {way}s",
        f"shared_{way}_wavefronts",
        per=f"ideal_shared_{way}_wavefronts",
        at_most=1,
        points=0.5,
    )
    for way in ("store", "load")
)

register(
    KernelExercise(
        id=f"{UNIT}/interleave",
        title="Three faults, one after another",
        entry="interleave",
        language="cuda",
        points=Points(
            correct=1,
            bounds=(
                *coalesced(REQUESTS, REQUESTS, points=0.5),
                *WAVEFRONTS,
                Bound(
                    "share of active lanes",
                    "lanes",
                    "lane_slots",
                    at_least=0.95,
                    reference=340_992,
                    margin=2,
                    also=one_side(STAGES * COUNTED["M"] * COUNTED["N"] // 2),
                ),
            ),
            in_order=True,
        ),
        arguments={"x": array("M", "N"), "out": out("N", "M")},
        reference=interleave,
        # v/(1 + |v|) and v/√(1 + v²) never amplify a relative error, so the rounding errors of all stages add up
        magnitude=lambda x: interleave(x).abs(),
        contract=Contract(terms=4 * STAGES),
        cost=lambda sizes, item: Cost(
            item * sizes["M"] * sizes["N"], item * sizes["M"] * sizes["N"], 4 * STAGES * sizes["M"] * sizes["N"]
        ),
        cases=(
            Case("one sample", {"M": 1, "N": 1}),
            Case("2 × 3", {"M": 2, "N": 3}, "position"),
            Case("one channel of 70 samples", {"M": 1, "N": 70}, "position"),
            Case("70 channels of one sample", {"M": 70, "N": 1}, "position"),
            Case("32 × 32, exactly one tile", {"M": 32, "N": 32}, "position"),
            Case("31 × 33, around one tile", {"M": 31, "N": 33}),
            Case("33 × 31, not aligned to 16 bytes", {"M": 33, "N": 31}, layout="offset"),
            Case("50 × 50, values up to ten thousand", {"M": 50, "N": 50}, "large"),
            Case("128 × 96, whole tiles", COUNTED, "position"),
        ),
        draw=lambda rng: {"M": rng.randrange(1, 80), "N": rng.randrange(1, 80)},
        tiny=Case("2 × 3", {"M": 2, "N": 3}),
        bench={"M": 8192, "N": 8192},
        known_mistakes=(
            KnownMistake("transposed", "{name} holds the channels one after another", _planar),
            KnownMistake("transposed", "the tiles of {name} are in the right places, but inside each tile rows and "
                         "columns are not swapped", _in_tiles),
            KnownMistake("wrong-formula", "even and odd channels are exchanged in {name}",
                         lambda x: interleave(x, lambda m, n: m % 2 == 1)),
            KnownMistake("wrong-formula", "{name} chooses the chain by the sample n, not by the channel m",
                         lambda x: interleave(x, lambda m, n: n % 2 == 0)),
            KnownMistake("wrong-formula", "every channel of {name} passes through the chain of the even channels",
                         lambda x: interleave(x, lambda m, n: m >= 0)),
            KnownMistake("wrong-formula", "every channel of {name} passes through the chain of the odd channels",
                         lambda x: interleave(x, lambda m, n: m < 0)),
            KnownMistake("wrong-formula", "no sample of {name} is clipped", lambda x: x.T),
        ),
    )
)  # fmt: skip
