# expect: wrong-formula
# Fuses without keeping s.

from labutils import Ledger, fuse


def rms_norm_residual_ledger(M, N, itemsize):
    x, row = M * N * itemsize, N * itemsize
    add = Ledger({"x": x, "r": x}, {"s": x}, flops=M * N)
    return fuse(add, Ledger({"s": x, "w": row}, {"y": x}, flops=4 * M * N))
