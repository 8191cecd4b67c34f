# expect: accepted
# A float is a number too.


def score_bytes(heads, N, itemsize):
    return float(heads) * N * N * itemsize
