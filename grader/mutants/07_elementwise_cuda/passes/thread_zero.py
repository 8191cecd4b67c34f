# expect: wrong-formula
# The number of thread 0 for every thread.


def passes(n, threads, thread):
    return (n + threads - 1) // threads
