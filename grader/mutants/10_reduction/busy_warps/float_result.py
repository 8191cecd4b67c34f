# expect: accepted
# A float, of the right value.
def busy_warps(threads, s):
    return threads / max(32, 2 * s)
