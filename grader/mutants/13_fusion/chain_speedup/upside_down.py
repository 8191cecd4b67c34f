# expect: wrong-formula
# Below 1: the fused over the eager traffic.


def chain_speedup(B, T, H):
    x = B * T * H
    return (3 * x + H) / (7 * x + H)
