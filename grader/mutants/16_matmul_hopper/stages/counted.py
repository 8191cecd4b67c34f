# expect: accepted
# Counted.
def stages(block_m, block_n, block_k, other):
    n = 0
    while other + (n + 1) * (block_m + block_n) * block_k * 2 <= 232448:
        n += 1
    return n
