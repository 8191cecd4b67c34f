# expect: wrong-formula
# Elements in place of bytes.
def stages(block_m, block_n, block_k, other):
    return (227 * 1024 - other) // ((block_m + block_n) * block_k)
