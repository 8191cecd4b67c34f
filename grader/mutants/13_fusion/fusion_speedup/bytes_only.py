# expect: wrong-formula
# The ratio of the bytes.


def fusion_speedup(links, fused, bandwidth, peak):
    return sum(b for b, f in links) / fused[0]
