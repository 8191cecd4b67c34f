# expect: accepted
# Three parts fused.

from labutils import Ledger, fuse


def rms_norm_residual_ledger(M, N, itemsize):
    x, row = M * N * itemsize, N * itemsize
    add = Ledger({"x": x, "r": x}, {"s": x}, flops=M * N)
    square = Ledger({"s": x}, {}, flops=2 * M * N)
    scale = Ledger({"s": x, "w": row}, {"y": x}, flops=2 * M * N)
    return fuse(add, square, scale, keep=["s"])
