# expect: wrong-formula
# Adds the two times of a link.


def fusion_speedup(links, fused, bandwidth, peak):
    links = sum(b / (bandwidth * 1e9) + f / (peak * 1e9) for b, f in links)
    return links / max(fused[0] / (bandwidth * 1e9), fused[1] / (peak * 1e9))
