# expect: wrong-formula
# dO is not kept.
def kept_bytes(heads, N, D, itemsize):
    return heads * N * (5 * D * itemsize + 4)
