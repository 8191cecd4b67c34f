# expect: wrong-formula
# For each element.
def cluster_intensity(block_m, block_n, cluster):
    return 2 * block_m * block_n / (block_m + block_n / cluster)
