# expect: wrong-formula
# Elements, not bytes.
def naive_bytes(N, D, itemsize):
    return 4 * N * N + 4 * N * D
