# expect: unfilled
# The stub.
def column_of(lane, i):
    raise NotImplementedError("column_of is not written yet")
