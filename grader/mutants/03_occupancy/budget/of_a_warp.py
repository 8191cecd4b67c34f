# expect: wrong-formula
# Registers of a warp.

from labutils import device


def register_budget(threads, blocks, capability):
    limits = device.limits_for(divmod(capability, 10))
    quarter = -(-blocks * -(-threads // 32) // 4)
    return limits.registers // 4 // quarter // 256 * 256
