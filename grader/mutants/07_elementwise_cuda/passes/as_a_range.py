# expect: accepted
# The loop itself, counted.


def passes(n, threads, thread):
    return len(range(thread, n, threads))
