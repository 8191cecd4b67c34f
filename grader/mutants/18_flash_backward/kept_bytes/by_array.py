# expect: accepted
# Array by array.
def kept_bytes(heads, N, D, itemsize):
    return 4 * (heads * N * D) * itemsize + 4 * heads * N
