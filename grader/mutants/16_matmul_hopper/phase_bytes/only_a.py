# expect: wrong-formula
# A's tile alone.
def phase_bytes(block_m, block_n, block_k, itemsize):
    return block_m * block_k * itemsize
