# expect: accepted
# Counts the warps.
def busy_warps(threads, s):
    return len({t // 32 for t in range(0, threads, 2 * s)})
