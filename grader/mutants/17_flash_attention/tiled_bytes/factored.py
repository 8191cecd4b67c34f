# expect: accepted
# Factored.
def tiled_bytes(N, D, block_m, itemsize):
    return 2 * N * D * itemsize * (1 + (N + block_m - 1) // block_m)
