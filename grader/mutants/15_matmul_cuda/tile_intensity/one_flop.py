# expect: wrong-formula
# A multiply-add counted as one FLOP.
def tile_intensity(block_m, block_n, itemsize):
    return block_m * block_n / ((block_m + block_n) * itemsize)
