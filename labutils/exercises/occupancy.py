"""Unit 03: how many blocks an SM holds, computed from its limits. The reference is `labutils.gpu.occupancy`."""

from __future__ import annotations

from ..gpu.device import DeviceLimits, limits_for
from ..gpu.occupancy import SUB_PARTITIONS, WARP, occupancy
from ..spec.exercise import Case, PlainExercise, Points, register
from ._numbers import sentence_for

CAPABILITIES = (75, 80, 86, 89, 90, 100, 120)
"""As one number, as compilers write them: 90 is 9.0."""


def _limits(capability: int) -> DeviceLimits:
    return limits_for(divmod(capability, 10))


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


# --- registers -----------------------------------------------------------------------------------------------------


def _by_registers(threads: int, registers: int, capability: int) -> int:
    return occupancy(_limits(capability), threads, registers).limits["registers"]


def _explain_registers(sizes, yours, expected) -> str | None:
    threads, registers, limits = sizes["threads"], sizes["registers"], _limits(sizes["capability"])
    warps = -(-threads // WARP)
    per_warp = _up(registers * WARP, limits.register_unit)
    quarter = limits.registers // SUB_PARTITIONS
    return sentence_for(
        yours,
        [
            (quarter // per_warp * SUB_PARTITIONS, f"That counts warps. A block has {warps} warps."),
            (limits.registers // (per_warp * warps),
             "A warp belongs to one of four schedulers, each with a quarter of the registers: count the whole warps "
             "that fit into a quarter, times four."),
            (limits.registers // (threads * registers),
             f"Registers are allocated per warp in units of {limits.register_unit}: round a warp's registers up."),
            (limits.registers // (warps * WARP * registers),
             f"Registers are allocated per warp in units of {limits.register_unit}: round a warp's registers up."),
            (quarter // (registers * WARP) * SUB_PARTITIONS // warps,
             f"Registers are allocated per warp in units of {limits.register_unit}: round a warp's registers up."),
            (quarter // per_warp * SUB_PARTITIONS // max(threads // WARP, 1),
             f"{threads} threads take {warps} warps: a partly filled warp occupies as much as a full one."),
            (quarter // per_warp // warps * SUB_PARTITIONS,
             "A block spreads its warps over the four schedulers: divide by the warps per block last."),
            (quarter // per_warp // warps, "That is one of the four quarters of the SM."),
        ],
    )  # fmt: skip


def _draw_registers(rng) -> dict[str, int]:
    while True:
        sizes = {
            "threads": rng.choice([32 * rng.randrange(1, 33), rng.randrange(1, 1025)]),
            "registers": rng.randrange(16, 256),
            "capability": rng.choice(CAPABILITIES),
        }
        if _by_registers(**sizes):  # at least one block fits
            return sizes


register(
    PlainExercise(
        id="03_occupancy/registers",
        title="Blocks that the registers allow",
        entry="blocks_by_registers",
        points=Points(correct=2),
        reference=_by_registers,
        rtol=0.0,
        explain=_explain_registers,
        cases=(
            Case("H100: 128 threads, 160 registers", {"threads": 128, "registers": 160, "capability": 90}),
            Case("H100: 256 threads, 40 registers", {"threads": 256, "registers": 40, "capability": 90}),
            Case("33 registers: how many are allocated?", {"threads": 256, "registers": 33, "capability": 80}),
            Case("100 threads are four warps", {"threads": 100, "registers": 64, "capability": 80}),
            Case("192 registers: four quarters", {"threads": 32, "registers": 192, "capability": 90}),
            Case("T4: a full block", {"threads": 1024, "registers": 64, "capability": 75}),
        ),
        draw=_draw_registers,
    )
)


# --- shared memory -------------------------------------------------------------------------------------------------


def _by_shared(shared_bytes: int, capability: int) -> int:
    return occupancy(_limits(capability), 32, 16, shared_bytes).limits["shared memory"]


def _explain_shared(sizes, yours, expected) -> str | None:
    wanted, limits = sizes["shared_bytes"], _limits(sizes["capability"])
    all_of_it, reserved = limits.shared_per_sm_kb * 1024, limits.shared_reserved_kb * 1024
    unit, most = limits.shared_unit_bytes, limits.max_blocks
    if expected == 0:
        return f"A block may request at most {limits.shared_per_block_kb} KB: with more it cannot run."
    messages = [
        (0, "That block fits: compare with shared_per_block_kb, in bytes."),
        (min(most, all_of_it // _up(wanted, unit)) if wanted else -1,
         f"The system reserves {limits.shared_reserved_kb} KB per block: add it."),
        (min(most, all_of_it // (wanted + reserved)) if wanted + reserved else -1,
         f"Shared memory is allocated in units of {unit} bytes: round up."),
        (min(most, (all_of_it - reserved) // _up(wanted, unit)) if wanted else -1,
         "The system reserves 1 KB per block, not once per SM."),
        (min(most, limits.shared_per_block_kb * 1024 // _up(wanted + reserved, unit)) if wanted + reserved else -1,
         "shared_per_block_kb limits one block; the SM has shared_per_sm_kb in total."),
        (min(most, limits.shared_per_sm_kb * 1000 // _up(wanted + reserved, unit)) if wanted + reserved else -1,
         "A KB is 1024 bytes here."),
        (all_of_it // _up(wanted + reserved, unit) if wanted + reserved else -1,
         f"An SM holds at most {most} blocks, however small: return no more."),
    ]  # fmt: skip
    return sentence_for(yours, messages)


def _draw_shared(rng) -> dict[str, int]:
    capability = rng.choice(CAPABILITIES)
    per_block = _limits(capability).shared_per_block_kb
    return {
        "shared_bytes": rng.choice([rng.randrange(8000), 1024 * rng.randrange(per_block + 8), rng.randrange(50_000)]),
        "capability": capability,
    }  # fmt: skip


register(
    PlainExercise(
        id="03_occupancy/shared_memory",
        title="Blocks that shared memory allows",
        entry="blocks_by_shared",
        points=Points(correct=2),
        reference=_by_shared,
        rtol=0.0,
        explain=_explain_shared,
        cases=(
            Case("H100: 32 KB per block", {"shared_bytes": 32 << 10, "capability": 90}),
            Case("H100: 57 KB, and the system's share", {"shared_bytes": 57 << 10, "capability": 90}),
            Case("A100: an odd number of bytes", {"shared_bytes": 11_894, "capability": 80}),
            Case("A100: so few that another limit binds", {"shared_bytes": 1000, "capability": 80}),
            Case("T4, no shared memory", {"shared_bytes": 0, "capability": 75}),
            Case("RTX 4090: the most a block may request", {"shared_bytes": 99 << 10, "capability": 89}),
            Case("RTX 4090: more than a block may request", {"shared_bytes": 100 << 10, "capability": 89}),
        ),
        draw=_draw_shared,
    )
)


# --- all four limits -----------------------------------------------------------------------------------------------


def _occupancy(threads: int, registers: int, shared_bytes: int, capability: int) -> float:
    return occupancy(_limits(capability), threads, registers, shared_bytes).fraction


def _explain_occupancy(sizes, yours, expected) -> str | None:
    limits = _limits(sizes["capability"])
    result = occupancy(limits, sizes["threads"], sizes["registers"], sizes["shared_bytes"])
    warps = -(-sizes["threads"] // WARP)
    share = warps / limits.max_warps
    messages = [
        (result.blocks, "That is the number of blocks. Which share of the warp slots do they use?"),
        (result.warps, "That is the number of warps. Divide by the warps that the SM can hold."),
        (100 * expected, "Return a share between 0 and 1, not a percentage."),
        (result.blocks / limits.max_blocks, "Occupancy is a share of warps, not of blocks."),
        (result.blocks * sizes["threads"] / (WARP * limits.max_warps),
         f"{sizes['threads']} threads take {warps} warps: a partly filled warp occupies as much as a full one."),
    ]  # fmt: skip
    for left_out in result.limits:
        rest = min(v for k, v in result.limits.items() if k != left_out)
        messages.append(
            (rest * share, f"{left_out.capitalize()} allow{'s' * (left_out[-1] != 's')} fewer blocks than that.")
        )
    messages.append((max(result.limits.values()) * share, "The scarcest resource decides: the smallest of the four."))
    return sentence_for(yours, messages)


def _draw_occupancy(rng) -> dict[str, int]:
    while True:
        sizes = {
            "threads": rng.choice([32 * rng.randrange(1, 33), rng.randrange(1, 1025), 32]),
            "registers": rng.choice([rng.randrange(16, 64), rng.randrange(16, 256)]),
            "shared_bytes": rng.choice([0, rng.randrange(0, 20_000), rng.randrange(0, 99 << 10)]),
            "capability": rng.choice(CAPABILITIES),
        }
        if sizes["shared_bytes"] <= _limits(sizes["capability"]).shared_per_block_kb * 1024 and _occupancy(**sizes):
            return sizes


register(
    PlainExercise(
        id="03_occupancy/calculator",
        title="Occupancy",
        entry="occupancy",
        points=Points(correct=3),
        reference=_occupancy,
        explain=_explain_occupancy,
        cases=tuple(
            Case(name, dict(zip(("threads", "registers", "shared_bytes", "capability"), sizes, strict=True)))
            for name, sizes in (
                ("H100: 128 threads × 160 registers", (128, 160, 0, 90)),
                ("H100: 256 threads, 40 registers, 32 KB", (256, 40, 32 << 10, 90)),
                ("small blocks: 32 threads", (32, 32, 0, 80)),
                ("T4: 1024 threads", (1024, 32, 0, 75)),
                ("RTX 4090: 768 threads in 48 warps", (768, 40, 0, 89)),
                ("100 threads in four warps", (100, 24, 0, 90)),
                ("shared memory alone: 48 KB", (128, 32, 48 << 10, 80)),
            )
        ),
        draw=_draw_occupancy,
    )
)


# --- a register budget ---------------------------------------------------------------------------------------------


def _budget(threads: int, blocks: int, capability: int) -> int:
    fits = (r for r in range(255, 0, -1) if _by_registers(threads, r, capability) >= blocks)
    return next(fits, 0)


def _explain_budget(sizes, yours, expected) -> str | None:
    threads, blocks, limits = sizes["threads"], sizes["blocks"], _limits(sizes["capability"])
    warps = -(-threads // WARP)
    share = limits.registers // (blocks * warps * WARP)
    per_quarter = -(-blocks * warps // SUB_PARTITIONS)
    exact = limits.registers // SUB_PARTITIONS // per_quarter
    return sentence_for(
        yours,
        [
            (limits.registers / (blocks * threads), "Registers are integers, allocated per warp in units of 256."),
            (share, "A warp is allocated units of 256 registers, 8 per thread: round down to a multiple of 8."),
            (exact // WARP, "A warp is allocated units of 256 registers, 8 per thread: round down."),
            (exact // limits.register_unit * limits.register_unit, "That is for a warp; divide by its 32 threads."),
            (exact // limits.register_unit * 8, "No thread may have more than limits.registers_per_thread."),
            (share // 8 * 8, "The warps spread over four schedulers: what fits into a quarter of the registers each?"),
            (min(255, limits.registers // (warps * WARP) // 8 * 8), f"That is for one block; {blocks} must fit."),
            (_up(share, 8), "That was rounded up and exceeds the registers: round down."),
        ],
    )  # fmt: skip


def _draw_budget(rng) -> dict[str, int]:
    capability = rng.choice(CAPABILITIES)
    limits = _limits(capability)
    threads = rng.choice([64, 96, 128, 160, 192, 256, 320, 384, 512, 640, 1024])
    most = min(limits.max_blocks, limits.max_warps // -(-threads // WARP))
    return {"threads": threads, "blocks": rng.randrange(1, most + 1), "capability": capability}


register(
    PlainExercise(
        id="03_occupancy/budget",
        title="Registers that a thread may have",
        entry="register_budget",
        points=Points(correct=2),
        reference=_budget,
        rtol=0.0,
        explain=_explain_budget,
        cases=(
            Case("H100: four blocks of 256 threads", {"threads": 256, "blocks": 4, "capability": 90}),
            Case("three of them", {"threads": 256, "blocks": 3, "capability": 90}),
            Case("a single small block", {"threads": 128, "blocks": 1, "capability": 90}),
            Case("five blocks of 96 threads", {"threads": 96, "blocks": 5, "capability": 80}),
            Case("T4: one block of 1024", {"threads": 1024, "blocks": 1, "capability": 75}),
        ),
        draw=_draw_budget,
    )
)
