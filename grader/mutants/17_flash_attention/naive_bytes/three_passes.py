# expect: wrong-formula
# Three passes over N x N.
def naive_bytes(N, D, itemsize):
    return itemsize * (3 * N * N + 4 * N * D)
