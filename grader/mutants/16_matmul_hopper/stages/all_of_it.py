# expect: wrong-formula
# What is taken already is forgotten.
def stages(block_m, block_n, block_k, other):
    return 227 * 1024 // ((block_m + block_n) * block_k * 2)
