# expect: accepted
# The quotient at once.


def chain_speedup(B, T, H):
    return (7 * B * T + 1) / (3 * B * T + 1)
