# expect: accepted
# Weight and bias as one entry.

from labutils import Ledger


def layer_norm_ledger(M, N, itemsize):
    x = M * N * itemsize
    return Ledger({"x": x, "weights": 2 * N * itemsize}, {"y": x}, flops=7 * M * N)
