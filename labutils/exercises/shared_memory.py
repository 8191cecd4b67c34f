"""Unit 09: shared memory. Bank conflicts, a convolution with a halo, two transposes, two kernels to debug."""

import math

import torch

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
from ._bounds import NO_STORE_CONFLICTS
from .coalescing import TRANSPOSE_REQUESTS, coalesced, register_transpose

BANKS = 32
BLOCK = 256


# --- banks ---------------------------------------------------------------------------------------------------------


def _explain_wavefronts(sizes, yours, expected) -> str | None:
    stride = sizes["stride"]
    if stride == 0:
        return "All lanes read the same word: a broadcast. One wavefront serves them all."
    if yours == BANKS // expected and yours != expected:
        return f"{yours} is the number of banks in use. How many of the 32 lanes does each of them serve?"
    if yours == stride:
        return f"Stride {stride} need not mean {stride} wavefronts: list the banks {stride}·k mod 32, k = 0, 1, …"
    if yours == min(stride, BANKS):
        return f"List the banks {stride}·k mod 32: lane 0 reads bank 0. Which is the next lane that does?"
    return "Compute each lane's bank, word mod 32, and count the different words of the busiest bank."


register(
    PlainExercise(
        id="09_shared_memory/wavefronts_for_stride",
        title="How many wavefronts does a stride cost?",
        entry="wavefronts_for_stride",
        points=Points(correct=1),
        reference=lambda stride: math.gcd(stride, BANKS) if stride else 1,
        rtol=0.0,
        explain=_explain_wavefronts,
        cases=(
            Case("adjacent words", {"stride": 1}),
            Case("every second word", {"stride": 2}),
            Case("every third word", {"stride": 3}),
            Case("every sixth word", {"stride": 6}),
            Case("down a column of a tile with 32 columns", {"stride": 32}),
            Case("down a column of a tile with 33 columns", {"stride": 33}),
            Case("down a column of a tile with 40 columns", {"stride": 40}),
            Case("all lanes the same word", {"stride": 0}),
        ),
        draw=lambda rng: {"stride": rng.randrange(0, 200)},
    )
)


# --- convolution ---------------------------------------------------------------------------------------------------

CONV_TILE = 1024


def _conv(x, weights, outside=None):
    """out[i] = Σ weights[radius + j] · x[i + j], as a sum of shifted copies; x is 0 outside its bounds."""
    radius, n = weights.numel() // 2, x.numel()
    padded = torch.nn.functional.pad(x, (radius, radius))
    if outside is not None:
        padded[:radius], padded[n + radius :] = outside[0], outside[1]
    total = torch.zeros_like(x)
    for k in range(weights.numel()):
        total += weights[k] * padded[k : k + n]
    return total


def _no_halo(x, weights):
    """The result of a kernel that reads 0 for elements outside its own block."""
    blocks = [_conv(part, weights) for part in x.split(CONV_TILE)]
    return torch.cat(blocks)


def _signal(n: int, taps: int) -> dict[str, int]:
    return {"n": n, "taps": taps}


register(
    KernelExercise(
        id="09_shared_memory/conv1d",
        title="1-D convolution with a halo",
        entry="conv1d",
        language="cuda",
        points=Points(
            correct=2,
            bounds=(
                # n / 8 sectors of data; each of the 8 blocks adds 2 for its halo and 3 for the weights
                Bound("sectors loaded", "global_load_sectors", at_most=8192 // 8 + 8 * (2 + 3), points=1),
                Bound(
                    "wavefronts per ideal wavefront, shared loads",
                    "shared_load_wavefronts",
                    per="ideal_shared_load_wavefronts",
                    at_most=1,
                    points=1,
                    also=NO_STORE_CONFLICTS,
                ),
            ),
        ),
        arguments={"x": array("n"), "weights": array("taps"), "out": out("n")},
        reference=_conv,
        magnitude=lambda x, weights: _conv(x.abs(), weights.abs()),
        contract=Contract(terms=lambda sizes: sizes["taps"] + 1),
        cost=lambda sizes, item: Cost(
            item * (sizes["n"] + sizes["taps"]), item * sizes["n"], 2 * sizes["n"] * sizes["taps"]
        ),
        cases=(
            Case("one element, radius 0", _signal(1, 1)),
            Case("two elements, radius 8: most of the window is outside x", _signal(2, 17), "position"),
            Case("ten elements, radius 1", _signal(10, 3), "position"),
            Case(f"n = {CONV_TILE - 1}, one short of a block, radius 3", _signal(CONV_TILE - 1, 7), "position"),
            Case(f"n = {CONV_TILE}, exactly one block, radius 8", _signal(CONV_TILE, 17), "position"),
            Case(f"n = {CONV_TILE + 1}, one more than a block, radius 5", _signal(CONV_TILE + 1, 11), "position"),
            Case("n = 3001, small integers, compared bit for bit", _signal(3001, 5), exact=True),
            Case("n = 2 · 1024 + 3, the last block has three elements", _signal(2 * CONV_TILE + 3, 17), "position"),
            Case("n = 4099, a prime, not aligned to 16 bytes", _signal(4099, 9), "wide", layout="offset"),
            Case("n = 8192, radius 8", _signal(8192, 17)),
        ),
        # shorter than the last case, whose counts earn the points
        draw=lambda rng: _signal(
            rng.choice([rng.randrange(1, 100), CONV_TILE * rng.randrange(1, 5) + rng.choice([-1, 0, 1, 7])]),
            2 * rng.randrange(0, 9) + 1,
        ),
        tiny=Case("ten elements, radius 1", _signal(10, 3), "integers"),
        bench=_signal(2**27, 7),
        library=lambda x, weights: torch.nn.functional.conv1d(
            x[None, None], weights[None, None], padding=weights.numel() // 2
        )[0, 0],
        known_mistakes=(
            KnownMistake(
                "wrong-formula",
                "{name} uses the weights in reverse order: weights[0] multiplies x[i − radius]",
                lambda x, weights: _conv(x, weights.flip(0)),
            ),
            KnownMistake(
                "wrong-formula",
                "{name} uses 0 for elements of the neighboring blocks: the halo is missing",
                _no_halo,
            ),
            KnownMistake(
                "wrong-formula",
                "{name} repeats the first and last element past the ends; this exercise wants 0 there",
                lambda x, weights: _conv(x, weights, (x[0], x[-1])),
            ),
            KnownMistake(
                "missing-accumulation",
                "{name} holds only the last product of each sum, weights[2 · radius] · x[i + radius]",
                lambda x, weights: _conv(x, torch.cat([torch.zeros_like(weights[:-1]), weights[-1:]])),
            ),
            KnownMistake(
                "wrong-formula",
                "{name} leaves out the last weight: each sum has 2 · radius + 1 terms",
                lambda x, weights: _conv(x, torch.cat([weights[:-1], torch.zeros_like(weights[-1:])])),
            ),
        ),
    )
)


# --- transposes without bank conflicts -------------------------------------------------------------------------------

TRANSPOSE_TILE = 64
"""Width and height of a tile: 16 elements per thread keep more loads in flight than the 4 of a 32 × 32 tile."""

COUNTED = (
    *coalesced(TRANSPOSE_REQUESTS, TRANSPOSE_REQUESTS, points=0.5),
    Bound(
        "wavefronts per ideal wavefront, shared stores",
        "shared_store_wavefronts",
        per="ideal_shared_store_wavefronts",
        at_most=1,
        points=0.5,
    ),
    Bound(
        "wavefronts per ideal wavefront, shared loads",
        "shared_load_wavefronts",
        per="ideal_shared_load_wavefronts",
        at_most=1,
        points=0.5,
    ),
)

register_transpose(
    "09_shared_memory/transpose_padded",
    "Transpose without bank conflicts: padding",
    "transpose_padded",
    Points(correct=1, bounds=COUNTED),
    tile=TRANSPOSE_TILE,
)
register_transpose(
    "09_shared_memory/transpose_swizzled",
    "Transpose without bank conflicts: swizzling",
    "transpose_swizzled",
    Points(
        correct=1,
        bounds=(
            *COUNTED,
            Bound("bytes of shared memory per block", "shared_bytes", at_most=4 * TRANSPOSE_TILE**2, points=1),
        ),
    ),
    tile=TRANSPOSE_TILE,
)


# --- two kernels to debug ------------------------------------------------------------------------------------------


def _smooth(x, steps, wrong=None):
    """`steps` times the mean of three neighbors, in groups of BLOCK; past a group's ends, its end element repeats."""
    whole = x.numel() // BLOCK * BLOCK
    parts = []
    for g in (x[:whole].reshape(-1, BLOCK), x[whole:].reshape(1, -1)):
        for _ in range(steps if g.numel() else 0):
            left, right = torch.cat([g[:, :1], g[:, :-1]], 1), torch.cat([g[:, 1:], g[:, -1:]], 1)
            if wrong == "zeros":
                left[:, 0], right[:, -1] = 0, 0
            g = (left + g + right) / 3
        parts.append(g.flatten())
    return torch.cat(parts)


def _whole(x, steps):
    """The same without groups."""
    for _ in range(steps):
        x = (torch.cat([x[:1], x[:-1]]) + x + torch.cat([x[1:], x[-1:]])) / 3
    return x


def _steps(n: int, steps: int) -> dict[str, int]:
    return {"n": n, "steps": steps}


register(
    KernelExercise(
        id="09_shared_memory/fix_race",
        title="Find the race",
        entry="smooth",
        language="cuda",
        points=Points(correct=2),
        arguments={"x": array("n"), "steps": Number(size="steps"), "out": out("n")},
        reference=_smooth,
        magnitude=lambda x, steps: _smooth(x.abs(), steps),
        contract=Contract(terms=lambda sizes: 4 * sizes["steps"] + 1),
        cost=lambda sizes, item: Cost(item * sizes["n"], item * sizes["n"], 3 * sizes["n"] * sizes["steps"]),
        cases=(
            Case("one element", _steps(1, 1)),
            Case("two elements, two iterations", _steps(2, 2), "position"),
            Case("a warp, one iteration", _steps(32, 1), "position"),
            Case("no iteration: a copy", _steps(300, 0), "position"),
            Case(f"n = {BLOCK - 1}, one short of a block", _steps(BLOCK - 1, 3), "position"),
            Case(f"n = {BLOCK}, exactly one block", _steps(BLOCK, 3), "position"),
            Case(f"n = {BLOCK + 1}, one more than a block", _steps(BLOCK + 1, 2), "position"),
            Case("n = 1009, a prime, five iterations", _steps(1009, 5), "wide", layout="offset"),
            Case("n = 2048, many blocks", _steps(2048, 4), "position"),
        ),
        draw=lambda rng: _steps(
            rng.choice([rng.randrange(1, 100), BLOCK * rng.randrange(1, 5) + rng.choice([-1, 0, 1])]),
            rng.randrange(1, 6),
        ),
        tiny=Case("eight elements, one iteration", _steps(8, 1), "integers"),
        bench=_steps(2**26, 4),
        known_mistakes=(
            KnownMistake(
                "wrong-formula",
                "{name} uses 0 past a group's ends; there the end element counts twice",
                lambda x, steps: _smooth(x, steps, "zeros"),
            ),
            KnownMistake("wrong-formula", "{name} smooths across the boundaries of the groups", _whole),
            KnownMistake(
                "wrong-formula",
                "{name} is the result after one iteration fewer",
                lambda x, steps: _smooth(x, max(steps - 1, 0)),
            ),
        ),
    )
)


def _gradient(x):
    return torch.cat([x[1:], x[-1:]]) - torch.cat([x[:1], x[:-1]])


register(
    KernelExercise(
        id="09_shared_memory/fix_bounds",
        title="Find the out-of-bounds accesses",
        entry="gradient",
        language="cuda",
        points=Points(correct=2),
        arguments={"x": array("n"), "out": out("n")},
        reference=_gradient,
        magnitude=lambda x: torch.cat([x[1:], x[-1:]]).abs() + torch.cat([x[:1], x[:-1]]).abs(),
        contract=Contract(terms=1),
        cost=lambda sizes, item: Cost(item * sizes["n"], item * sizes["n"], sizes["n"]),
        cases=(
            Case("one element", {"n": 1}),
            Case("two elements", {"n": 2}, "position"),
            Case("three elements", {"n": 3}, "position"),
            Case(f"n = {BLOCK - 1}, one short of a block", {"n": BLOCK - 1}, "position"),
            Case(f"n = {BLOCK}, exactly one block", {"n": BLOCK}, "position"),
            Case(f"n = {BLOCK + 1}, one more than a block", {"n": BLOCK + 1}, "position"),
            Case("n = 700, small integers, compared bit for bit", {"n": 700}, exact=True),
            Case("n = 1009, a prime, not aligned to 16 bytes", {"n": 1009}, "wide", layout="offset"),
            Case("n = 2048, many blocks", {"n": 2048}, "position"),
        ),
        draw=lambda rng: {
            "n": rng.choice([rng.randrange(1, 100), BLOCK * rng.randrange(1, 5) + rng.choice([-1, 0, 1])])
        },
        tiny=Case("eight elements", {"n": 8}, "integers"),
        bench={"n": 2**27},
        known_mistakes=(
            KnownMistake("wrong-formula", "{name} is x[i−1] − x[i+1]: the sign is wrong", lambda x: -_gradient(x)),
            KnownMistake(
                "wrong-formula", "{name} is (x[i+1] − x[i−1]) / 2: do not divide by 2", lambda x: _gradient(x) / 2
            ),
            KnownMistake(
                "wrong-formula",
                "{name} is x[i+1] − x[i], only one neighbor",
                lambda x: torch.cat([x[1:], x[-1:]]) - x,
            ),
            KnownMistake(
                "wrong-formula",
                "{name} is x[i] − x[i−1], only one neighbor",
                lambda x: x - torch.cat([x[:1], x[:-1]]),
            ),
        ),
    )
)
