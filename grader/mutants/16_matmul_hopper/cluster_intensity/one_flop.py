# expect: wrong-formula
# A multiply-add counted as one FLOP.
def cluster_intensity(block_m, block_n, cluster):
    return block_m * block_n / (2 * (block_m + block_n / cluster))
