# expect: wrong-formula
# Tiles at the edge counted as whole.
def loaded_bytes(M, N, K, block_m, block_n, itemsize):
    tiles_m, tiles_n = -(-M // block_m), -(-N // block_n)
    return itemsize * tiles_m * tiles_n * (block_m + block_n) * K
