# expect: accepted
# Divides once per row and multiplies.

from labutils import Ledger


def softmax_ledger(M, N, itemsize):
    x = M * N * itemsize
    return Ledger({"row": x}, {"out": x}, flops=5 * M * N + M)
