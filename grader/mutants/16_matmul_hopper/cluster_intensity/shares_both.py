# expect: wrong-formula
# Shares both.
def cluster_intensity(block_m, block_n, cluster):
    return cluster * block_m * block_n / (block_m + block_n)
