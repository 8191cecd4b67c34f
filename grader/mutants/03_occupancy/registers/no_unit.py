# expect: wrong-formula
# Does not round to the unit.

from labutils import device


def blocks_by_registers(threads, registers, capability):
    limits = device.limits_for(divmod(capability, 10))
    return limits.registers // (threads * registers)
