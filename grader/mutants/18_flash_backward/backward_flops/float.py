# expect: accepted
# A float is a number too.


def backward_flops(heads, N, D):
    return 14.0 * heads * N**2 * D
