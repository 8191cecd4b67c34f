# expect: wrong-formula
# The output is missing.
def kept_bytes(heads, N, D, itemsize):
    return heads * N * (3 * D * itemsize + 4)
