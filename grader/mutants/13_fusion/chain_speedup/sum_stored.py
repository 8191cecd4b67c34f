# expect: wrong-formula
# A fused kernel that stores the sum too.


def chain_speedup(B, T, H):
    x = B * T * H
    return (7 * x + H) / (4 * x + H)
