# expect: accepted
# Counts the additions exactly, one fewer per row.

from labutils import Ledger


def softmax_ledger(M, N, itemsize):
    x = M * N * itemsize
    return Ledger({"x": x}, {"y": x}, flops=5 * M * N - 2 * M)
