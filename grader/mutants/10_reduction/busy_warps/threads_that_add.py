# expect: wrong-formula
# Counts threads, not warps.
def busy_warps(threads, s):
    return threads // (2 * s)
