# expect: accepted
# Kernel by kernel.


def naive_bytes(N, D, itemsize):
    return itemsize * ((2 * N * D + N * N) + (N * N + N * N) + (N * N + N * D + N * D))
