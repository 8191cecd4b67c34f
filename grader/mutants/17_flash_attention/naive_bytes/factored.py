# expect: accepted
# Factored.
def naive_bytes(N, D, itemsize):
    return 4 * N * itemsize * (N + D)
