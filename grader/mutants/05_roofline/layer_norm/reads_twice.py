# expect: wrong-formula
# Reads x once for the mean and once for the rest.

from labutils import Ledger


def layer_norm_ledger(M, N, itemsize):
    x = M * N * itemsize
    return Ledger({"x": 2 * x, "w": N * itemsize, "b": N * itemsize}, {"y": x}, flops=7 * M * N)
