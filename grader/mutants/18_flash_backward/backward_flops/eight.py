# expect: wrong-formula
# Four products in both kernels.
def backward_flops(heads, N, D):
    return 16 * heads * N * N * D
