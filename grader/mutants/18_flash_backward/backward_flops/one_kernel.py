# expect: wrong-formula
# One kernel of two.
def backward_flops(heads, N, D):
    return 8 * heads * N * N * D
