# expect: accepted
# Tile by tile.
def phase_bytes(block_m, block_n, block_k, itemsize):
    return block_m * block_k * itemsize + block_n * block_k * itemsize
