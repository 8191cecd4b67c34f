# expect: accepted
# A's bytes plus B's.
def loaded_bytes(M, N, K, block_m, block_n, itemsize):
    tiles_m, tiles_n = -(-M // block_m), -(-N // block_n)
    return M * K * itemsize * tiles_n + K * N * itemsize * tiles_m
