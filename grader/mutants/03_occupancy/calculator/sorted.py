# expect: accepted
# The first of the sorted limits.

from labutils import device


def occupancy(threads, registers, shared_bytes, capability):
    limits = device.limits_for(divmod(capability, 10))
    warps = -(-threads // 32)
    per_warp = -(-registers // 8) * 256
    by_registers = limits.registers // 4 // per_warp * 4 // warps
    taken = -(-(shared_bytes + limits.shared_reserved_kb * 1024) // limits.shared_unit_bytes) * limits.shared_unit_bytes
    by_shared = limits.shared_per_sm_kb * 1024 // taken if taken else limits.max_blocks
    by_warps = limits.max_warps // warps
    return sorted([by_registers, by_shared, by_warps, limits.max_blocks])[0] * warps / limits.max_warps
