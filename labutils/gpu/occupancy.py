"""Occupancy: how many blocks of a kernel an SM holds at a time, and what stops it from holding more. Pure maths.

The rules are those of NVIDIA's `cuda_occupancy.h`, with which the tests compare them in thousands of combinations.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from .device import DeviceLimits

WARP = 32
SUB_PARTITIONS = 4
"""Each SM has four schedulers, each with a quarter of the registers; a warp lives on one of them."""


@dataclass(frozen=True)
class Occupancy:
    """`blocks` resident on one SM, the `warps` they make, the `fraction` of the warps it can hold.

    `limits` holds how many blocks each resource alone would allow, `limiter` the resource that allows fewest.
    """

    blocks: int
    warps: int
    fraction: float
    limiter: str
    limits: dict[str, int]


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def occupancy(limits: DeviceLimits, threads: int, registers: int, shared_bytes: int = 0) -> Occupancy:
    """Occupancy of blocks of `threads` threads with `registers` 32-bit registers each and `shared_bytes` a block.

    Zero blocks mean that the kernel cannot be launched. Raises ValueError for sizes that are not positive.
    """
    if threads < 1 or registers < 0 or shared_bytes < 0:
        raise ValueError("threads must be positive, registers and shared memory not negative")
    warps = -(-threads // WARP)
    per_block = {
        "warps": limits.max_warps // warps if threads <= limits.threads_per_block else 0,
        "blocks": limits.max_blocks,
        "registers": _by_registers(limits, warps, registers),
        "shared memory": _by_shared(limits, shared_bytes),
    }
    limiter = min(per_block, key=per_block.__getitem__)
    blocks = per_block[limiter]
    return Occupancy(blocks, blocks * warps, blocks * warps / limits.max_warps, limiter, per_block)


def _by_registers(limits: DeviceLimits, warps: int, registers: int) -> int:
    if registers == 0:
        return limits.max_blocks
    if registers > limits.registers_per_thread:
        return 0
    per_warp = _up(registers * WARP, limits.register_unit)
    if per_warp * _up(warps, limits.warp_unit) > limits.registers:
        return 0
    resident_warps = limits.registers // SUB_PARTITIONS // per_warp * SUB_PARTITIONS
    return resident_warps // warps


def _by_shared(limits: DeviceLimits, shared_bytes: int) -> int:
    if shared_bytes > limits.shared_per_block_kb * 1024:
        return 0
    taken = _up(shared_bytes + limits.shared_reserved_kb * 1024, limits.shared_unit_bytes)
    return min(limits.max_blocks, limits.shared_per_sm_kb * 1024 // taken) if taken else limits.max_blocks


def waves(blocks: int, resident: int) -> tuple[int, float]:
    """(number of waves, efficiency of the whole): `blocks` in all, `resident` on the GPU at a time.

    160 blocks on 148 SMs at one block each take two waves, the second nearly empty: efficiency 160 / 296.
    """
    count = -(-blocks // resident)
    return count, blocks / (count * resident)


def tail(blocks: int, resident: int) -> int:
    """Blocks of the last wave: `resident` when it is full."""
    return blocks - (waves(blocks, resident)[0] - 1) * resident


def warps_for_bytes(bytes_in_flight: float, sms: int, bytes_per_lane: float = 4, loads: int = 1) -> int:
    """Warps per SM that keep this many bytes in flight on the whole GPU.

    Every lane of a warp has `loads` loads of `bytes_per_lane` in flight. `bytes_in_flight` comes from Little's law,
    `roofline.in_flight`. If the SM cannot hold that many, load more bytes per lane or accept less bandwidth.
    """
    return ceil(bytes_in_flight / (sms * WARP * bytes_per_lane * loads))


def busy_share(warps: int, busy: int, latency: int) -> float:
    """Share of the cycles in which a scheduler issues: each of its warps works `busy` cycles, then waits `latency`."""
    return min(1.0, warps * busy / (busy + latency))


def warps_for_latency(busy: int, latency: int) -> int:
    """Warps with which a scheduler always has one that is ready."""
    return -(-(busy + latency) // busy)
