# expect: wrong-formula
# Counts what is read and forgets what is written.


def add_bytes(n, itemsize):
    return 2 * n * itemsize
