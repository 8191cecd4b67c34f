# expect: wrong-formula
# Forgets weight and bias.

from labutils import Ledger


def layer_norm_ledger(M, N, itemsize):
    x = M * N * itemsize
    return Ledger({"x": x}, {"y": x}, flops=7 * M * N)
