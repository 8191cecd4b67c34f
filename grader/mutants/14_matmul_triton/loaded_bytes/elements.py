# expect: wrong-formula
# Elements in place of bytes.
def loaded_bytes(M, N, K, block_m, block_n, itemsize):
    tiles_m, tiles_n = -(-M // block_m), -(-N // block_n)
    return K * (M * tiles_n + N * tiles_m)
