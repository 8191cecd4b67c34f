# expect: wrong-formula
# Reads a row and a column for each result.

from labutils import Ledger


def matmul_ledger(M, N, K, itemsize):
    return Ledger({"ab": 2 * M * N * K * itemsize}, {"c": M * N * itemsize}, flops=2 * M * N * K)
