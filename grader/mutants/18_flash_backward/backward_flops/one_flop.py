# expect: wrong-formula
# A multiply-add taken for one FLOP.
def backward_flops(heads, N, D):
    return 7 * heads * N * N * D
