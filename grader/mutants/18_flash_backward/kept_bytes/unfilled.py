# expect: unfilled
# The stub.
def kept_bytes(heads, N, D, itemsize):
    raise NotImplementedError("kept_bytes is not written yet")
