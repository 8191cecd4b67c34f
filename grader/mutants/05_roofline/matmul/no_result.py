# expect: wrong-formula
# Forgets that C is written.

from labutils import Ledger


def matmul_ledger(M, N, K, itemsize):
    return Ledger({"a": M * K * itemsize, "b": K * N * itemsize}, {}, flops=2 * M * N * K)
