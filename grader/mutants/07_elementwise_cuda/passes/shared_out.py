# expect: accepted
# Whole rounds, and one more for the first threads.


def passes(n, threads, thread):
    return n // threads + (thread < n % threads)
