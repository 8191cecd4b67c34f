# expect: wrong-formula
# A and B once, as if tiles shared loads.
def loaded_bytes(M, N, K, block_m, block_n, itemsize):
    return itemsize * K * (M + N)
