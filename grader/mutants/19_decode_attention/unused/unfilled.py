# expect: unfilled
# The stub.
def unused(length, page):
    raise NotImplementedError("unused is not written yet")
