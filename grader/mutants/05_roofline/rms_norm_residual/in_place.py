# expect: accepted
# s takes the place of r.

from labutils import Ledger


def rms_norm_residual_ledger(M, N, itemsize):
    x = M * N * itemsize
    return Ledger({"x": x, "r": x, "w": N * itemsize}, {"r": x, "y": x}, flops=5 * M * N + 3 * M)
