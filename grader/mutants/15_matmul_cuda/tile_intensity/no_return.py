# expect: wrong-values
# The value is never returned.
def tile_intensity(block_m, block_n, itemsize):
    return None
