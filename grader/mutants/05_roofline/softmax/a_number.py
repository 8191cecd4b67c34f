# expect: wrong-formula
# Returns the bytes alone.


def softmax_ledger(M, N, itemsize):
    return 2 * M * N * itemsize
