# expect: wrong-formula
# Counts every warp in every step.
def busy_warps(threads, s):
    return threads // 32
