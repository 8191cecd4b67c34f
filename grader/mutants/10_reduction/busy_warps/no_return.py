# expect: wrong-values
# Computes, and returns nothing.
def busy_warps(threads, s):
    threads // max(32, 2 * s)
