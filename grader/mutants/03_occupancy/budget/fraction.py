# expect: wrong-formula
# A fraction of a register.

from labutils import device


def register_budget(threads, blocks, capability):
    limits = device.limits_for(divmod(capability, 10))
    return limits.registers / (blocks * threads)
