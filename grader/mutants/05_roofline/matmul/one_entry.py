# expect: accepted
# Both operands as one entry.

from labutils import Ledger


def matmul_ledger(M, N, K, itemsize):
    return Ledger({"ab": (M + N) * K * itemsize}, {"c": M * N * itemsize}, flops=2 * M * N * K)
