# expect: wrong-formula
# One program's loads.
def loaded_bytes(M, N, K, block_m, block_n, itemsize):
    return itemsize * K * (block_m + block_n)
