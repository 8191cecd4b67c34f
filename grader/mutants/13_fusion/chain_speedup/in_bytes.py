# expect: accepted
# In bytes: the size of an element cancels.


def chain_speedup(B, T, H):
    x = 2 * B * T * H
    return (7 * x + 2 * H) / (3 * x + 2 * H)
