# expect: wrong-formula
# Only the rounds that all threads take part in.


def passes(n, threads, thread):
    return n // threads
