# expect: wrong-formula
# P is not kept.
def kept_bytes(heads, N, D, itemsize):
    return heads * N * ((4 * D + N) * itemsize)
