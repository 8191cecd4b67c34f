# expect: wrong-formula
# One head.
def score_bytes(heads, N, itemsize):
    return N * N * itemsize
