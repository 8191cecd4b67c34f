# expect: wrong-formula
# Leaves out the row vectors.


def naive_bytes(M, N, itemsize):
    return 8 * M * N * itemsize
