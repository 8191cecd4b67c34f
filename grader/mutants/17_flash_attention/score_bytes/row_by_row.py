# expect: accepted
# Row by row.


def score_bytes(heads, N, itemsize):
    row = N * itemsize
    return heads * (N * row)
