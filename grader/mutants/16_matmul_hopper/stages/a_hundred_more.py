# expect: wrong-values
# Another GPU.
def stages(block_m, block_n, block_k, other):
    return (163 * 1024 - other) // ((block_m + block_n) * block_k * 2)
