# expect: accepted
# Term by term.


def add_bytes(n, itemsize):
    read = n * itemsize + n * itemsize
    written = n * itemsize
    return read + written
