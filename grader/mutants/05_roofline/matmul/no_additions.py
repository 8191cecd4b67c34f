# expect: wrong-formula
# Counts the products alone.

from labutils import Ledger


def matmul_ledger(M, N, K, itemsize):
    return Ledger({"a": M * K * itemsize, "b": K * N * itemsize}, {"c": M * N * itemsize}, flops=M * N * K)
