# expect: wrong-formula
# Counts the SM's registers as one pool.

from labutils import device


def register_budget(threads, blocks, capability):
    limits = device.limits_for(divmod(capability, 10))
    return min(255, limits.registers // (blocks * -(-threads // 32) * 32) // 8 * 8)
