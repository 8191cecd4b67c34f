# expect: accepted
# One addition fewer for each result.

from labutils import Ledger


def matmul_ledger(M, N, K, itemsize):
    reads = {"a": M * K * itemsize, "b": K * N * itemsize}
    return Ledger(reads, {"c": M * N * itemsize}, flops=M * N * (2 * K - 1))
