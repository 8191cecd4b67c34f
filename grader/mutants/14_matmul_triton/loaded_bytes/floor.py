# expect: wrong-formula
# The number of tiles rounded down.
def loaded_bytes(M, N, K, block_m, block_n, itemsize):
    return itemsize * K * (M * (N // block_n) + N * (M // block_m))
