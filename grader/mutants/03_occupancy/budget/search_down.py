# expect: accepted
# Tries from the top.


def register_budget(threads, blocks, capability):
    warps = -(-threads // 32)
    for registers in range(255, 0, -1):
        per_warp = -(-registers // 8) * 256
        if 16384 // per_warp * 4 // warps >= blocks:
            return registers
    return 0
