# expect: accepted
# Rounds each thread to 8 registers.

from labutils import device


def blocks_by_registers(threads, registers, capability):
    limits = device.limits_for(divmod(capability, 10))
    per_thread = (registers + 7) // 8 * 8
    quarter = limits.registers // 4 // (32 * per_thread)
    return 4 * quarter // ((threads + 31) // 32)
