"""Unit 02: grid, blocks, threads and warps, in CUDA C++.

`diverge` passes the two channels of a stereo signal, whose samples alternate, through two chains of soft clippers.
A chain of k clippers v/(1 + |v|) is v/(1 + k·|v|), one of v/√(1 + v²) is v/√(1 + k·v²): that is the reference.
"""

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
from ._bounds import one_side
from ._cases import draw_vector, vector_cases
from ._numbers import sentence_for

# --- waves ---------------------------------------------------------------------------------------------------------

GRIDS = (
    Case("160 blocks, 148 SMs, one block per SM", {"blocks": 160, "sms": 148, "blocks_per_sm": 1}),
    Case("148 blocks, exactly one wave", {"blocks": 148, "sms": 148, "blocks_per_sm": 1}),
    Case("a single block", {"blocks": 1, "sms": 148, "blocks_per_sm": 2}),
    Case("4096 blocks, 132 SMs, 8 blocks per SM", {"blocks": 4096, "sms": 132, "blocks_per_sm": 8}),
    Case("2112 blocks, exactly two waves", {"blocks": 2112, "sms": 132, "blocks_per_sm": 8}),
    Case("2113 blocks, one too many", {"blocks": 2113, "sms": 132, "blocks_per_sm": 8}),
)


def _waves(blocks: int, sms: int, blocks_per_sm: int) -> int:
    return -(-blocks // (sms * blocks_per_sm))


def _explain_waves(sizes, yours, expected) -> str | None:
    blocks, sms, per_sm = sizes["blocks"], sizes["sms"], sizes["blocks_per_sm"]
    slots = sms * per_sm
    if yours == blocks / slots:
        return "A wave that is not full takes as long as a full one: round up."
    if yours == blocks // slots:
        return f"That rounds down: {blocks % slots} blocks have no wave. Round up."
    if yours == blocks // slots + 1:
        return f"{blocks} blocks fill whole waves exactly; there is no extra wave."
    if yours == -(-blocks // sms):
        return f"Each SM holds {per_sm} blocks at a time, so a wave has {sms} · {per_sm} blocks."
    if yours == -(-blocks // per_sm):
        return f"That is for one SM; {sms} SMs work at the same time."
    return None


def _draw_grid(rng) -> dict[str, int]:
    sms, per_sm = rng.choice([40, 108, 132, 148]), rng.randrange(1, 17)
    exact = sms * per_sm * rng.randrange(1, 5)
    return {"blocks": rng.choice([exact, exact + 1, rng.randrange(1, 10_000)]), "sms": sms, "blocks_per_sm": per_sm}


register(
    PlainExercise(
        id="02_execution_model/waves",
        title="Waves of blocks",
        entry="waves",
        points=Points(correct=1),
        reference=_waves,
        rtol=0.0,
        explain=_explain_waves,
        cases=GRIDS,
        draw=_draw_grid,
    )
)


def _tail_efficiency(blocks: int, sms: int, blocks_per_sm: int) -> float:
    return blocks / (_waves(blocks, sms, blocks_per_sm) * sms * blocks_per_sm)


def _explain_efficiency(sizes, yours, expected) -> str | None:
    blocks, sms, per_sm = sizes["blocks"], sizes["sms"], sizes["blocks_per_sm"]
    slots, waves = sms * per_sm, _waves(**sizes)
    last = blocks - (waves - 1) * slots
    messages = {
        last / slots: "That is the share of the last wave. Count the slots of all waves.",
        blocks / slots: "That is the number of waves before rounding. Divide by the slots of all waves together.",
        blocks / (waves * sms): f"Each SM has {per_sm} block slots in a wave, not one.",
        100 * expected: "Return a share between 0 and 1, not a percentage.",
        1 - expected: "That is the idle share. Return the used share.",
        1 / expected: "Invert the fraction: used slots over all slots.",
        waves: "That is the number of waves. Which share of their slots is used?",
    }
    return sentence_for(yours, messages)


register(
    PlainExercise(
        id="02_execution_model/tail_efficiency",
        title="Share of the block slots that a grid uses",
        entry="tail_efficiency",
        points=Points(correct=1),
        reference=_tail_efficiency,
        explain=_explain_efficiency,
        cases=GRIDS,
        draw=_draw_grid,
    )
)


# --- one index -----------------------------------------------------------------------------------------------------


def _ramp(x):
    return torch.arange(x.numel(), dtype=x.dtype, device=x.device)


register(
    KernelExercise(
        id="02_execution_model/fade",
        title="One index: fade a signal in",
        entry="fade",
        points=Points(correct=2),
        arguments={"x": array("n"), "out": out("n")},
        reference=lambda x: x * _ramp(x) / x.numel(),
        magnitude=lambda x: x.abs() * _ramp(x) / x.numel(),
        contract=Contract(terms=4),
        cost=lambda sizes, item: Cost(item * sizes["n"], item * sizes["n"], 2 * sizes["n"]),
        cases=vector_cases(large=50_048, half=False),
        draw=draw_vector,
        tiny=Case("eight elements", {"n": 8}, "integers"),
        bench={"n": 2**27},
        library=lambda x: x * (_ramp(x) / x.numel()),
        language="cuda",
        known_mistakes=(
            KnownMistake(
                "wrong-formula",
                "{name} is 0 everywhere: i / n of two integers is an integer in C++; divide floats",
                lambda x: torch.zeros_like(x),
            ),
            KnownMistake("wrong-formula", "{name} is a copy of x: it does not fade", lambda x: x.clone()),
            KnownMistake("wrong-formula", "{name} is not divided by n", lambda x: x * _ramp(x)),
            KnownMistake("off-by-one", "{name} uses i + 1 instead of i", lambda x: x * (_ramp(x) + 1) / x.numel()),
            KnownMistake(
                "wrong-formula",
                "{name} restarts the fade in each block: i is the index in the whole grid, not threadIdx.x",
                lambda x: x * (_ramp(x) % 256) / x.numel(),
            ),
        ),
    )
)


# --- two indices ---------------------------------------------------------------------------------------------------

IMAGES = (
    Case("one pixel", {"M": 1, "N": 1}),
    Case("2 × 3", {"M": 2, "N": 3}, "position"),
    Case("1 × 100, a single row", {"M": 1, "N": 100}, "position"),
    Case("100 × 1, a single column", {"M": 100, "N": 1}, "position"),
    Case("7 × 31, one short of a block each way", {"M": 7, "N": 31}, "position"),
    Case("8 × 32, exactly one block", {"M": 8, "N": 32}, "wide"),
    Case("9 × 33, one more than a block each way", {"M": 9, "N": 33}, "position"),
    Case("40 × 40, square", {"M": 40, "N": 40}, "position"),
    Case("131 × 97, primes", {"M": 131, "N": 97}),
    Case("60 × 80, not aligned to 16 bytes", {"M": 60, "N": 80}, "position", layout="offset"),
    Case("90 × 120, values up to ten thousand", {"M": 90, "N": 120}, "large"),
    Case("160 × 200, many blocks", {"M": 160, "N": 200}, "position"),
)


def _draw_image(rng) -> dict[str, int]:
    near = rng.choice([-1, 0, 1])
    sizes = [(rng.randrange(1, 150), rng.randrange(1, 200)), (8 * rng.randrange(1, 9) + near, 32 * 3 + near)]
    return dict(zip("MN", rng.choice(sizes), strict=True))


def _exact(cases):
    """The same cases, compared bit for bit: for kernels that only move values."""
    return tuple(Case(c.name, c.sizes, c.fill, c.layout, c.dtype, exact=True) for c in cases)


register(
    KernelExercise(
        id="02_execution_model/mirror",
        title="Two indices: mirror an image",
        entry="mirror",
        points=Points(correct=2),
        arguments={"x": array("M", "N", fill="position"), "out": out("M", "N")},
        reference=lambda x: x.flip(1),
        magnitude=lambda x: x.abs().flip(1),
        contract=Contract(terms=1),
        cost=lambda sizes, item: Cost(item * sizes["M"] * sizes["N"], item * sizes["M"] * sizes["N"], 0),
        cases=_exact(IMAGES),
        draw=_draw_image,
        tiny=Case("3 × 5", {"M": 3, "N": 5}),
        bench={"M": 8192, "N": 8192},
        library=lambda x: x.flip(1),
        language="cuda",
        known_mistakes=(
            KnownMistake("wrong-formula", "{name} is a copy of x: nothing is mirrored", lambda x: x.clone()),
            KnownMistake("wrong-formula", "{name} is upside down: mirror columns, not rows", lambda x: x.flip(0)),
            KnownMistake("wrong-formula", "{name} is rotated by 180°: mirror columns only", lambda x: x.flip(0, 1)),
            KnownMistake(
                "off-by-one",
                "{name} is mirrored one column too far: column 0 goes to N - 1, not to N",
                lambda x: x.flatten().roll(-1).reshape(x.shape).flip(1),
            ),
        ),
    )
)


# --- divergence ----------------------------------------------------------------------------------------------------

STAGES = 16
COUNTED = 8192
"""Samples of the case whose counts are graded."""

ONE_CHANNEL = one_side(STAGES * COUNTED // 2)


def _left(v):
    return v / (1 + STAGES * v.abs())


def _right(v):
    return v / (1 + STAGES * v**2).sqrt()


def _stereo(x, is_left=lambda i: i % 2 == 0):
    return torch.where(is_left(torch.arange(x.numel(), device=x.device)), _left(x), _right(x))


register(
    KernelExercise(
        id="02_execution_model/diverge",
        title="Branch by warp",
        entry="stereo",
        points=Points(
            correct=2,
            bounds=(
                Bound(
                    "share of active lanes",
                    "lanes",
                    "lane_slots",
                    at_least=0.9,
                    reference=311_296,
                    margin=3,
                    also=ONE_CHANNEL,
                ),
                Bound(
                    "share of divergent branches",
                    "divergent_branches",
                    "branches",
                    at_most=0.001,
                    reference=9728,
                    margin=3,
                    also=ONE_CHANNEL,
                ),
            ),
        ),
        arguments={"x": array("n"), "out": out("n")},
        reference=_stereo,
        # v/(1 + |v|) and v/√(1 + v²) never amplify a relative error, so the rounding errors of all stages add up
        magnitude=lambda x: _stereo(x).abs(),
        contract=Contract(terms=4 * STAGES),
        cost=lambda sizes, item: Cost(item * sizes["n"], item * sizes["n"], 4 * STAGES * sizes["n"]),
        cases=(
            Case("one sample", {"n": 1}),
            Case("two samples, left and right", {"n": 2}),
            Case("three samples", {"n": 3}, "position"),
            Case("n = 255, one short of a block", {"n": 255}, "position"),
            Case("n = 256, exactly one block", {"n": 256}, "wide"),
            Case("n = 257, one more than a block", {"n": 257}, "position"),
            Case("n = 1000, values up to ten thousand", {"n": 1000}, "large"),
            Case("n = 1021, a prime", {"n": 1021}),
            Case("n = 1500, not aligned to 16 bytes", {"n": 1500}, layout="offset"),
            Case(f"n = {COUNTED}, whole warps only", {"n": COUNTED}, "position"),
        ),
        draw=lambda rng: {"n": rng.choice([rng.randrange(1, 64), 256 * rng.randrange(1, 9) + rng.choice([-1, 0, 1])])},
        tiny=Case("eight samples", {"n": 8}),
        bench={"n": 2**26},
        language="cuda",
        known_mistakes=(
            KnownMistake(
                "wrong-formula",
                "{name} has the channels swapped: the left one has the even samples",
                lambda x: _stereo(x, lambda i: i % 2 == 1),
            ),
            KnownMistake("wrong-formula", "{name} treats every sample as left", lambda x: _left(x)),
            KnownMistake("wrong-formula", "{name} treats every sample as right", lambda x: _right(x)),
            KnownMistake(
                "wrong-formula",
                "{name} changes the channel every 32 samples: change the sample index too, not only the condition",
                lambda x: _stereo(x, lambda i: i % 64 < 32),
            ),
            KnownMistake(
                "wrong-formula",
                "{name} changes the channel every 128 samples: change the sample index too, not only the condition",
                lambda x: _stereo(x, lambda i: i % 256 < 128),
            ),
        ),
    )
)
