# expect: wrong-formula
# lse in the type of the others.
def kept_bytes(heads, N, D, itemsize):
    return heads * N * (4 * D + 1) * itemsize
