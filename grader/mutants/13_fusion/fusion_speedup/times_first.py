# expect: accepted
# The times of all links first.


def fusion_speedup(links, fused, bandwidth, peak):
    def seconds(link):
        moved, flops = link
        by_memory, by_cores = moved / bandwidth, flops / peak
        return by_memory if by_memory > by_cores else by_cores

    return sum(map(seconds, links)) / seconds(fused)
