# expect: wrong-formula
# Not rounded.
def stages(block_m, block_n, block_k, other):
    return (227 * 1024 - other) / ((block_m + block_n) * block_k * 2)
