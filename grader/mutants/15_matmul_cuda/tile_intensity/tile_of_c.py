# expect: wrong-formula
# Bytes of the tile of C.
def tile_intensity(block_m, block_n, itemsize):
    return 2 * block_m * block_n / (block_m * block_n * itemsize)
