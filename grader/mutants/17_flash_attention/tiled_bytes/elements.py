# expect: wrong-formula
# Elements, not bytes.
def tiled_bytes(N, D, block_m, itemsize):
    return 2 * N * D + 2 * N * D * -(-N // block_m)
