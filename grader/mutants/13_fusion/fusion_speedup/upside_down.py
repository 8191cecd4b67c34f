# expect: wrong-formula
# The fused time over the links.


def fusion_speedup(links, fused, bandwidth, peak):
    return max(fused[0] / (bandwidth * 1e9), fused[1] / (peak * 1e9)) / sum(
        max(b / (bandwidth * 1e9), f / (peak * 1e9)) for b, f in links
    )
