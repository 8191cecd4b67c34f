# expect: accepted
# By int.
def stages(block_m, block_n, block_k, other):
    return int((232448 - other) / (2 * block_k * (block_m + block_n)))
