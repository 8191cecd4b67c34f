# expect: wrong-formula
# As if each block fetched all of B.
def cluster_intensity(block_m, block_n, cluster):
    return block_m * block_n / (block_m + block_n)
