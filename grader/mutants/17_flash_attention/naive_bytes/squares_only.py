# expect: wrong-formula
# Scores and weights alone.
def naive_bytes(N, D, itemsize):
    return 4 * N * N * itemsize
