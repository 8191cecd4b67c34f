# expect: unfilled
# The stub.
def naive_bytes(N, D, itemsize):
    raise NotImplementedError("naive_bytes is not written yet")
