# expect: wrong-formula
# Adds a pass also where none is left.


def passes(n, threads, thread):
    return (n - thread) // threads + 1 if thread < n else 0
