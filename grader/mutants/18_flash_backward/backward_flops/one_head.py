# expect: wrong-formula
# One head.
def backward_flops(heads, N, D):
    return 14 * N * N * D
