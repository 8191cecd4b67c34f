# expect: wrong-formula
# Keys and values read once.
def tiled_bytes(N, D, block_m, itemsize):
    return 4 * N * D * itemsize
