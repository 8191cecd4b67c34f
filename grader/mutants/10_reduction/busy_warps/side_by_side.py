# expect: wrong-formula
# Takes the threads that add to sit side by side.
def busy_warps(threads, s):
    return -(-threads // (64 * s))
