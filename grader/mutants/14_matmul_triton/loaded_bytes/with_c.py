# expect: wrong-formula
# The stores of C counted, too.
def loaded_bytes(M, N, K, block_m, block_n, itemsize):
    tiles_m, tiles_n = -(-M // block_m), -(-N // block_n)
    return itemsize * (K * (M * tiles_n + N * tiles_m) + M * N)
