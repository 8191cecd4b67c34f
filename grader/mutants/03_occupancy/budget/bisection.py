# expect: accepted
# Halves the interval.


def register_budget(threads, blocks, capability):
    warps, low, high = -(-threads // 32), 0, 255
    while low < high:
        middle = (low + high + 1) // 2
        fits = 16384 // (-(-middle // 8) * 256) * 4 // warps >= blocks
        low, high = (middle, high) if fits else (low, middle - 1)
    return low
