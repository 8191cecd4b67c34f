# expect: accepted
# For the whole cluster.
def cluster_intensity(block_m, block_n, cluster):
    return cluster * block_m * block_n / (cluster * block_m + block_n)
