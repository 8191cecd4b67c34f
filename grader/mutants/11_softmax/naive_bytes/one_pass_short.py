# expect: wrong-formula
# Forgets that the sum reads the whole matrix.


def naive_bytes(M, N, itemsize):
    return (7 * M * N + 4 * M) * itemsize
