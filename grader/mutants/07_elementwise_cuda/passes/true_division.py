# expect: wrong-formula
# Does not round.


def passes(n, threads, thread):
    return (n - thread) / threads
