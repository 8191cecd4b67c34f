# expect: wrong-formula
# Counts the output twice, as if its old contents were needed.


def add_bytes(n, itemsize):
    return 4 * n * itemsize
