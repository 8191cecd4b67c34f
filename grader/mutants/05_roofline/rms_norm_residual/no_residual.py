# expect: wrong-formula
# Forgets to read the residual.

from labutils import Ledger


def rms_norm_residual_ledger(M, N, itemsize):
    x = M * N * itemsize
    return Ledger({"x": x, "w": N * itemsize}, {"s": x, "y": x}, flops=5 * M * N)
