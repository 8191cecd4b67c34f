# expect: wrong-formula
# Three sides in place of two.
def phase_bytes(block_m, block_n, block_k, itemsize):
    return block_m * block_n * block_k * itemsize
