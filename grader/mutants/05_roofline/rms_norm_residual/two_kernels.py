# expect: wrong-formula
# Two kernels: s is written and read again.

from labutils import Ledger


def rms_norm_residual_ledger(M, N, itemsize):
    x, row = M * N * itemsize, N * itemsize
    add = Ledger({"x": x, "r": x}, {"s": x}, flops=M * N)
    return add + Ledger({"s": x, "w": row}, {"y": x}, flops=4 * M * N)
