# expect: wrong-formula
# The traffic of the fused kernel.


def naive_bytes(M, N, itemsize):
    return 2 * M * N * itemsize
