# expect: accepted
# From the forward pass.
def backward_flops(heads, N, D):
    return 7 * (4 * heads * N * N * D) // 2
