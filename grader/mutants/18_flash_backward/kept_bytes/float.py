# expect: accepted
# A float is a number too.


def kept_bytes(heads, N, D, itemsize):
    return 4.0 * heads * N * D * itemsize + 4.0 * heads * N
