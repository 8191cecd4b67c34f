# expect: wrong-formula
# Adds bytes and FLOPs of all links before it takes the longer.


def fusion_speedup(links, fused, bandwidth, peak):
    b, f = sum(x[0] for x in links), sum(x[1] for x in links)
    return max(b / bandwidth, f / peak) / max(fused[0] / bandwidth, fused[1] / peak)
