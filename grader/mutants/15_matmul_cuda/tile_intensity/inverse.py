# expect: wrong-formula
# Bytes for each FLOP.
def tile_intensity(block_m, block_n, itemsize):
    return (block_m + block_n) * itemsize / (2 * block_m * block_n)
