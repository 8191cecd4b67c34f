# expect: wrong-values
# Answers in words.


def add_bytes(n, itemsize):
    return f"{3 * n * itemsize} bytes"
