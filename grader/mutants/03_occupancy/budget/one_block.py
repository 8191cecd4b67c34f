# expect: wrong-formula
# For one block, however many are to fit.

from labutils import device


def register_budget(threads, blocks, capability):
    limits = device.limits_for(divmod(capability, 10))
    return min(255, limits.registers // (-(-threads // 32) * 32) // 8 * 8)
