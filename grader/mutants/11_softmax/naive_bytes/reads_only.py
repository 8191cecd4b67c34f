# expect: wrong-formula
# Forgets what is written.


def naive_bytes(M, N, itemsize):
    reads = M * N + (M * N + M) + M * N + M * N + (M * N + M)
    writes = M + M * N + M * N + M + M * N
    return reads * itemsize
