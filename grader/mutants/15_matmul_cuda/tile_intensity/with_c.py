# expect: wrong-formula
# C counted in every step.
def tile_intensity(block_m, block_n, itemsize):
    return 2 * block_m * block_n / ((block_m + block_n + block_m * block_n) * itemsize)
