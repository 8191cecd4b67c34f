# expect: accepted
# As a float.
def phase_bytes(block_m, block_n, block_k, itemsize):
    return float(block_m + block_n) * block_k * itemsize
