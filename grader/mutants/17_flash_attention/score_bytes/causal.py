# expect: wrong-formula
# Half of them.
def score_bytes(heads, N, itemsize):
    return heads * N * (N + 1) // 2 * itemsize
