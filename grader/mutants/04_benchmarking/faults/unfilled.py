# expect: unfilled
# The stub as it is released.


def faults():
    raise NotImplementedError("faults is not written yet")
