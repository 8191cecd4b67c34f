# expect: accepted
# With nbytes.

from labutils.gpu.roofline import Ledger, nbytes


def matmul_ledger(M, N, K, itemsize):
    dtype = {1: "int8", 2: "float16", 4: "float32"}[itemsize]
    reads = {"a": nbytes(M, K, dtype=dtype), "b": nbytes(K, N, dtype=dtype)}
    return Ledger(reads, {"c": nbytes(M, N, dtype=dtype)}, flops=2 * M * N * K)
