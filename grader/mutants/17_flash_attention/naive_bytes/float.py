# expect: accepted
# A float is a number too.


def naive_bytes(N, D, itemsize):
    return 4.0 * N * N * itemsize + 4.0 * N * D * itemsize
