# expect: wrong-formula
# Q, K, V and out alone.
def naive_bytes(N, D, itemsize):
    return 4 * N * D * itemsize
