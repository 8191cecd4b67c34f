# expect: wrong-formula
# One score for each query.
def score_bytes(heads, N, itemsize):
    return heads * N * itemsize
