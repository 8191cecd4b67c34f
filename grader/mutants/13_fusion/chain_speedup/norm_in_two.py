# expect: wrong-formula
# Counts the norm as reading x twice.


def chain_speedup(B, T, H):
    x = B * T * H
    return (8 * x + H) / (3 * x + H)
