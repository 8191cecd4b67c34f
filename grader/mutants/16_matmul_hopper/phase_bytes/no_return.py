# expect: wrong-values
# The value is never returned.
def phase_bytes(block_m, block_n, block_k, itemsize):
    (block_m + block_n) * block_k * itemsize
