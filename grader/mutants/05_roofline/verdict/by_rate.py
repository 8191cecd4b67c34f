# expect: accepted
# Compares rates, and bandwidth where there are no FLOPs.


def verdict(work, seconds, roof):
    share = max(work.bytes / seconds / roof.bandwidth, work.flops / seconds / roof.flops)
    if share < 0.5:
        return "neither"
    return "memory" if work.intensity < roof.ridge else "compute"
