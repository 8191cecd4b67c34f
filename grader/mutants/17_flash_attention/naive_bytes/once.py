# expect: wrong-formula
# Scores and weights written, never read.
def naive_bytes(N, D, itemsize):
    return itemsize * (2 * N * N + 4 * N * D)
