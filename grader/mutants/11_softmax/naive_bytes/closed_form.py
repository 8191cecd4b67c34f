# expect: accepted
# The ledger added up.


def naive_bytes(M, N, itemsize):
    return 4 * M * (2 * N + 1) * itemsize
