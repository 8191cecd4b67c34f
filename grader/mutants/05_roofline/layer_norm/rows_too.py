# expect: accepted
# Counts what is done once per row as well.

from labutils import Ledger


def layer_norm_ledger(M, N, itemsize):
    x, row = M * N * itemsize, N * itemsize
    return Ledger({"x": x, "w": row, "b": row}, {"y": x}, flops=7 * M * N + 5 * M)
