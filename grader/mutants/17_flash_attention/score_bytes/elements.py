# expect: wrong-formula
# Elements, not bytes.
def score_bytes(heads, N, itemsize):
    return heads * N * N
