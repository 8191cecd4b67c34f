# expect: accepted
# A float is a number too.


def naive_bytes(M, N, itemsize):
    return float((8 * M * N + 4 * M) * itemsize)
