# expect: wrong-formula
# The eager transfers alone.


def chain_speedup(B, T, H):
    return 7
