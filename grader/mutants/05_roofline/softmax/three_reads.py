# expect: wrong-formula
# Reads the row three times, as three kernels would.

from labutils import Ledger


def softmax_ledger(M, N, itemsize):
    x = M * N * itemsize
    return Ledger({"x": 3 * x}, {"y": x}, flops=5 * M * N)
