# expect: unfilled
# The stub.
def sequences(memory, token_bytes, length, page):
    raise NotImplementedError("sequences is not written yet")
