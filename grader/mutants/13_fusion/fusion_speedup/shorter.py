# expect: wrong-formula
# Takes the shorter of the two times.


def fusion_speedup(links, fused, bandwidth, peak):
    return sum(min(b / (bandwidth * 1e9), f / (peak * 1e9)) for b, f in links) / min(
        fused[0] / (bandwidth * 1e9), fused[1] / (peak * 1e9)
    )
