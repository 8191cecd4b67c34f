# expect: wrong-formula
# Takes every element for four bytes.


def add_bytes(n, itemsize):
    return 12 * n
