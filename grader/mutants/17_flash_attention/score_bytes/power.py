# expect: accepted
# As a power.
def score_bytes(heads, N, itemsize):
    return itemsize * heads * N**2
