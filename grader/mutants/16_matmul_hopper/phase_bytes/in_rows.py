# expect: accepted
# Row by row.
def phase_bytes(block_m, block_n, block_k, itemsize):
    return sum(block_k * itemsize for _ in range(block_m + block_n))
