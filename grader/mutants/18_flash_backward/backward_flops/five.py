# expect: wrong-formula
# Five products.
def backward_flops(heads, N, D):
    return 10 * heads * N * N * D
