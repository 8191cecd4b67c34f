# expect: unfilled
# The stub as it is released.


def read_names():
    raise NotImplementedError("read_names is not written yet")
