# expect: accepted
# Two FLOPs and two bytes cancel.
def cluster_intensity(block_m, block_n, cluster):
    return block_m * block_n / (block_m + block_n / cluster)
