# expect: wrong-formula
# One quarter only.

from labutils import device


def blocks_by_registers(threads, registers, capability):
    limits = device.limits_for(divmod(capability, 10))
    per_warp = -(-registers * 32 // 256) * 256
    return limits.registers // 4 // per_warp // -(-threads // 32)
