# expect: wrong-formula
# A for each row of tiles, B for each column.
def loaded_bytes(M, N, K, block_m, block_n, itemsize):
    tiles_m, tiles_n = -(-M // block_m), -(-N // block_n)
    return itemsize * K * (M * tiles_m + N * tiles_n)
