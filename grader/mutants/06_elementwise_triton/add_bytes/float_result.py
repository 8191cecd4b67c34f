# expect: accepted
# A float with the right value.


def add_bytes(n, itemsize):
    return 3.0 * n * itemsize
