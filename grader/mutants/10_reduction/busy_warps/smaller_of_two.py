# expect: accepted
# As many warps as adding threads, but no more than there are.
def busy_warps(threads, s):
    return min(threads // 32, threads // (2 * s))
