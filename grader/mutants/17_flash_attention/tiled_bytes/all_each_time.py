# expect: wrong-formula
# Q and out move for each block.
def tiled_bytes(N, D, block_m, itemsize):
    return itemsize * 4 * N * D * -(-N // block_m)
