# expect: accepted
# The same, as a harmonic mean.
def tile_intensity(block_m, block_n, itemsize):
    return 2 / (itemsize / block_m + itemsize / block_n)
