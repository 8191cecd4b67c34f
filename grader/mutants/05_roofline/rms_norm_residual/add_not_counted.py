# expect: wrong-formula
# Leaves out the addition and the weights' product.

from labutils import Ledger


def rms_norm_residual_ledger(M, N, itemsize):
    x = M * N * itemsize
    return Ledger({"x": x, "r": x, "w": N * itemsize}, {"s": x, "y": x}, flops=3 * M * N)
