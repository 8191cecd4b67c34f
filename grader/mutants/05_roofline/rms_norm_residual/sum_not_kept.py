# expect: wrong-formula
# Does not write s, which the next layer needs.

from labutils import Ledger


def rms_norm_residual_ledger(M, N, itemsize):
    x = M * N * itemsize
    return Ledger({"x": x, "r": x, "w": N * itemsize}, {"y": x}, flops=5 * M * N)
