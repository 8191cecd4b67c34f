# expect: wrong-formula
# Blocks need not be whole.
def tiled_bytes(N, D, block_m, itemsize):
    return itemsize * (2 * N * D + 2 * N * D * N / block_m)
