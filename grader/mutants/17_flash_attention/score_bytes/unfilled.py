# expect: unfilled
# The stub.
def score_bytes(heads, N, itemsize):
    raise NotImplementedError("score_bytes is not written yet")
