# expect: unfilled
# The stub.
def intensity(queries, group, itemsize):
    raise NotImplementedError("intensity is not written yet")
