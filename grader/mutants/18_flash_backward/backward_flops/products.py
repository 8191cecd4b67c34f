# expect: accepted
# Seven products.


def backward_flops(heads, N, D):
    return sum(2 * heads * N * N * D for _ in range(7))
