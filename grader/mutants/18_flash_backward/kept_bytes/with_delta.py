# expect: wrong-formula
# delta is not kept.
def kept_bytes(heads, N, D, itemsize):
    return heads * N * (4 * D * itemsize + 8)
