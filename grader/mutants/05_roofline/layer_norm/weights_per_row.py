# expect: wrong-formula
# Reads weight and bias from memory for every row.

from labutils import Ledger


def layer_norm_ledger(M, N, itemsize):
    x = M * N * itemsize
    return Ledger({"x": x, "w": x, "b": x}, {"y": x}, flops=7 * M * N)
