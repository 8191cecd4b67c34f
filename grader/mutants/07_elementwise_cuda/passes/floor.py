# expect: wrong-formula
# Rounds down.


def passes(n, threads, thread):
    return max(0, (n - thread) // threads)
