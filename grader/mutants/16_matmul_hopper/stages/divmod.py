# expect: accepted
# By divmod.
def stages(block_m, block_n, block_k, other):
    return divmod(232448 - other, 2 * block_k * (block_m + block_n))[0]
