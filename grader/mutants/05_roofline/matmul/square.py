# expect: wrong-formula
# Takes all matrices for M by N.

from labutils import Ledger


def matmul_ledger(M, N, K, itemsize):
    x = M * N * itemsize
    return Ledger({"a": x, "b": x}, {"c": x}, flops=2 * M * N * K)
