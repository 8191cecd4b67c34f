# expect: wrong-formula
# lse is missing.
def kept_bytes(heads, N, D, itemsize):
    return 4 * heads * N * D * itemsize
