# expect: wrong-formula
# A last block that is not full is forgotten.
def tiled_bytes(N, D, block_m, itemsize):
    return itemsize * (2 * N * D + 2 * N * D * (N // block_m))
