# expect: accepted
# In a loop.


def fusion_speedup(links, fused, bandwidth, peak):
    total = 0.0
    for moved, flops in links:
        total += max(moved / bandwidth, flops / peak)
    return total / max(fused[0] / bandwidth, fused[1] / peak)
