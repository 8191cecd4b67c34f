# expect: wrong-formula
# Q and out are missing.
def tiled_bytes(N, D, block_m, itemsize):
    return itemsize * 2 * N * D * -(-N // block_m)
