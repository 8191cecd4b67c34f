# expect: wrong-formula
# Elements in place of bytes.
def phase_bytes(block_m, block_n, block_k, itemsize):
    return (block_m + block_n) * block_k
