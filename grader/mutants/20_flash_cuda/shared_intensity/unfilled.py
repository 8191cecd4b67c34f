# expect: unfilled
# The stub.
def shared_intensity(rows, itemsize):
    raise NotImplementedError("shared_intensity is not written yet")
