# expect: wrong-formula
# Takes the threads that add to be s apart.
def busy_warps(threads, s):
    return threads // max(32, s)
