# expect: wrong-formula
# Shares A in place of B.
def cluster_intensity(block_m, block_n, cluster):
    return block_m * block_n / (block_m / cluster + block_n)
