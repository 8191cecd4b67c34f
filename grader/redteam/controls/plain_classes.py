# tries: a dataclass with properties, and rounding up by math.ceil
# exercise: 03_occupancy/calculator
# expect: accepted

import math
from dataclasses import dataclass


@dataclass
class Block:
    threads: int
    registers: int
    shared: int

    @property
    def warps(self):
        return math.ceil(self.threads / 32)


def up(n, unit):
    return math.ceil(n / unit) * unit


def occupancy(threads, registers, shared_bytes, capability):
    limits, block = lab.device.limits_for(divmod(capability, 10)), Block(threads, registers, shared_bytes)
    if block.shared > limits.shared_per_block_kb * 1024:
        return 0
    by = [limits.max_warps // block.warps, limits.max_blocks]
    by.append(limits.registers // 4 // up(32 * block.registers, limits.register_unit) * 4 // block.warps)
    if taken := up(block.shared + limits.shared_reserved_kb * 1024, limits.shared_unit_bytes):
        by.append(limits.shared_per_sm_kb * 1024 // taken)
    return sorted(by)[0] * block.warps / limits.max_warps
