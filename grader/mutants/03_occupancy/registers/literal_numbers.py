# expect: accepted
# With the numbers that are the same everywhere.


def blocks_by_registers(threads, registers, capability):
    per_warp = -(-registers // 8) * 256
    return 16384 // per_warp * 4 // -(-threads // 32)
