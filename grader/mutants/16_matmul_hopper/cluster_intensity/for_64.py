# expect: accepted
# For a step of 64.
def cluster_intensity(block_m, block_n, cluster):
    return 2 * block_m * block_n * 64 / (2 * 64 * (block_m + block_n / cluster))
