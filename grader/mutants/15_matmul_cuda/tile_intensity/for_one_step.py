# expect: accepted
# For one step along K.


def tile_intensity(block_m, block_n, itemsize):
    flops = 2 * block_m * block_n
    moved = itemsize * block_m + itemsize * block_n
    return flops / moved
