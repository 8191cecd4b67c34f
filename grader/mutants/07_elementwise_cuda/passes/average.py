# expect: wrong-formula
# The average of all threads.


def passes(n, threads, thread):
    return n / threads
