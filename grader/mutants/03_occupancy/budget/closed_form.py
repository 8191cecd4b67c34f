# expect: accepted
# Warps of a quarter, then registers of a warp.

from labutils import device


def register_budget(threads, blocks, capability):
    limits = device.limits_for(divmod(capability, 10))
    quarter = -(-blocks * -(-threads // 32) // 4)
    return min(limits.registers_per_thread, limits.registers // 4 // quarter // 256 * 8)
