# expect: wrong-formula
# The bytes of the tile of C.
def phase_bytes(block_m, block_n, block_k, itemsize):
    return block_m * block_n * itemsize
