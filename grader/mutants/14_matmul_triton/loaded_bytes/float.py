# expect: accepted
# A float is a number too.


def loaded_bytes(M, N, K, block_m, block_n, itemsize):
    tiles_m, tiles_n = (M + block_m - 1) // block_m, (N + block_n - 1) // block_n
    return float(itemsize * K * (M * tiles_n + N * tiles_m))
