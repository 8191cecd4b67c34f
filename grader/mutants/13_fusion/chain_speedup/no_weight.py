# expect: wrong-formula
# Leaves out the weight.


def chain_speedup(B, T, H):
    return 7 / 3
