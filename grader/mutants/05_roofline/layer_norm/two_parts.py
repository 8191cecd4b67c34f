# expect: accepted
# Statistics and scaling fused.

from labutils import Ledger, fuse


def layer_norm_ledger(M, N, itemsize):
    x, row = M * N * itemsize, N * itemsize
    first = Ledger({"x": x}, {"c": x}, flops=4 * M * N)
    second = Ledger({"c": x, "w": row, "b": row}, {"y": x}, flops=3 * M * N)
    return fuse(first, second)
