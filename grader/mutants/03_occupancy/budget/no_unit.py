# expect: wrong-formula
# Does not round down to the unit.

from labutils import device


def register_budget(threads, blocks, capability):
    limits = device.limits_for(divmod(capability, 10))
    return min(255, limits.registers // (blocks * threads))
