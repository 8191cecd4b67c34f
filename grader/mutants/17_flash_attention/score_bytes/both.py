# expect: wrong-formula
# Scores and weights.
def score_bytes(heads, N, itemsize):
    return 2 * heads * N * N * itemsize
