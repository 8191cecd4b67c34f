# expect: wrong-formula
# dP counted once.
def backward_flops(heads, N, D):
    return 12 * heads * N * N * D
