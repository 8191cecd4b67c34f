# expect: wrong-formula
# Leaves out squares and their sum.

from labutils import Ledger


def layer_norm_ledger(M, N, itemsize):
    x, row = M * N * itemsize, N * itemsize
    return Ledger({"x": x, "w": row, "b": row}, {"y": x}, flops=5 * M * N)
